{% autoescape off %}#!/bin/sh
# Installs, updates or removes the Berth agent of this node. As root:
#   curl -fsSL {{ portal }}/agent/v1/install.sh | sh -s -- --token TOKEN
# With --help it says what else it takes. Every step says what to do when it fails; a second run goes on from there.
set -eu

PORTAL={{ portal }}
SHA256={{ sha256 }}
RELEASE={{ release }}

usage() {
  cat <<'HELP'
Installs or updates the Berth agent of this node.

  --token TOKEN    the one-time token from the node's page; not needed to update
  --name NAME      how this node calls itself; its host name when left out
  --prefix DIR     where the agent is installed, /opt/berth-agent when left out
  --state DIR      its identity and journal, /var/lib/berth-agent when left out
  --python FILE    Python 3.11 or newer, python3 when left out
  --foreground     run the agent here instead of as a service; so it is where there is no systemd
  --anyway         go on although the self-test found something that does not do
  --remove         stop the service and remove the agent; its state stays

Settings of the agent come from variables that begin with BERTH_AGENT_ and from SSL_CERT_FILE and CONTAINER_HOST, which are
kept in DIR/agent.env. `berth-agent run --help` lists them.
HELP
}

say() { printf '%s\n' "$*"; }
fail() { printf '%s\n' "$*" >&2; exit 1; }

fetch() {
  "$python" - "$1" "$2" <<'FETCH'
import sys, urllib.request
try:
    urllib.request.urlretrieve(*sys.argv[1:])
except OSError as error:
    sys.exit(str(error))
FETCH
}

read_options() {
  token='' name='' prefix=/opt/berth-agent state=/var/lib/berth-agent python=python3 foreground='' anyway='' remove=''
  while [ $# -gt 0 ]; do
    case $1 in
      --help|-h) usage; exit 0 ;;
      --foreground) foreground=yes ;;
      --anyway) anyway=yes ;;
      --remove) remove=yes ;;
      --token|--name|--prefix|--state|--python)
        [ $# -ge 2 ] || fail "$1 wants a value. --help lists the options."
        case $1 in
          --token) token=$2 ;; --name) name=$2 ;; --prefix) prefix=$2 ;; --state) state=$2 ;; --python) python=$2 ;;
        esac
        shift ;;
      *) fail "$1 is no option of this installer. --help lists them." ;;
    esac
    shift
  done
  # A unit file and a settings file name both folders: what they cannot hold is refused here.
  for folder in "$prefix" "$state"; do
    case $folder in
      /*[!A-Za-z0-9/._-]*) fail "$folder: take a folder of letters, digits, dots, - and _ alone." ;;
      /?*) ;;
      *) fail "$folder is not an absolute path." ;;
    esac
  done
  [ -d /run/systemd/system ] || foreground=yes
  unit=/etc/systemd/system/berth-agent.service
}

check_machine() {
  [ -n "$foreground" ] || [ "$(id -u)" -eq 0 ] || fail "A service is installed as root: put sudo before sh, or take --foreground."
  "$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null ||
    fail "Python 3.11 or newer is needed, and $python is $("$python" --version 2>&1 || true). Name another with --python."
  "$python" -c 'import venv, ensurepip' 2>/dev/null ||
    fail "Python's venv module is missing; on Debian and Ubuntu: apt-get install python3-venv"
  [ -f "$state/identity.json" ] || [ -n "$token" ] ||
    fail "This node has not joined yet: give --token TOKEN. The portal shows it when a node is added."
}

install_release() {
  release=$prefix/releases/$RELEASE
  if [ -e "$release/complete" ]; then say "Release $RELEASE is installed already."; return; fi
  say "Installing release $RELEASE in $release ..."
  rm -rf "$release"; mkdir -p "$release"
  fetch "$PORTAL/agent/v1/agent.tar.gz" "$release/agent.tar.gz" || fail "$PORTAL could not be reached for the agent."
  found=$("$python" -c 'import hashlib, sys; print(hashlib.sha256(open(sys.argv[1], "rb").read()).hexdigest())' "$release/agent.tar.gz")
  [ "$found" = "$SHA256" ] || fail "The agent came damaged, or the portal was updated meanwhile. Run this again."
  tar -xzf "$release/agent.tar.gz" -C "$release" --no-same-owner && rm "$release/agent.tar.gz"
  printf '%s\n' "$RELEASE" >"$release/RELEASE"
  "$python" -m venv "$release/venv"
  "$release/venv/bin/python" -m pip install --quiet --disable-pip-version-check {% if has_wheels %}--no-index --find-links "$release/wheels" {% endif %}-r "$release/agents/requirements.txt" ||
    fail "What the agent needs could not be installed; see what pip says above."
  touch "$release/complete"
}

# What was set before stays unless it is set anew now.
write_settings() {
  mkdir -p "$state" "$prefix/bin"; chmod 700 "$state"
  new=$prefix/agent.env.new
  ( umask 077; env | grep -E '^(BERTH_AGENT_[A-Z_]+|SSL_CERT_FILE|CONTAINER_HOST)=' | grep -vE '^BERTH_AGENT_(TOKEN|STATE|PORTAL|NAME)=' >"$new" || true
    printf 'BERTH_AGENT_STATE=%s\nBERTH_AGENT_PORTAL=%s\n' "$state" "$PORTAL" >>"$new"
    if [ -f "$prefix/agent.env" ]; then
      while IFS= read -r line; do
        grep -q "^${line%%=*}=" "$new" || printf '%s\n' "$line" >>"$new"
      done <"$prefix/agent.env"
    fi )
  mv "$new" "$prefix/agent.env"
  cat >"$prefix/bin/berth-agent" <<WRAPPER
#!/bin/sh
# The agent's commands with this node's settings: berth-agent check, berth-agent run
while IFS= read -r line; do export "\$line"; done <$prefix/agent.env
cd $prefix/current && exec ./venv/bin/python -m agents "\$@"
WRAPPER
  chmod 755 "$prefix/bin/berth-agent"
}

# The new release runs from here on; the one before stays for workloads that were started by it.
switch_release() {
  ln -sfn "releases/$RELEASE" "$prefix/current.new"
  "$python" -c 'import os, sys; os.replace(*sys.argv[1:])' "$prefix/current.new" "$prefix/current"
  ls -1t "$prefix/releases" | tail -n +4 | while IFS= read -r old; do
    [ "$old" = "$RELEASE" ] || rm -rf "$prefix/releases/$old"
  done
}

prepare_podman() {
  if [ -z "$foreground" ] && systemctl list-unit-files podman.socket >/dev/null 2>&1; then
    systemctl enable --quiet --now podman.socket || say "podman.socket could not be switched on; the self-test says more."
  fi
}

join() {
  say "Self-test:"
  "$prefix/bin/berth-agent" check || [ -n "$anyway" ] ||
    fail "Not joined; the token is not spent. Mend what fails above and run this again, or go on with --anyway."
  if [ -f "$state/identity.json" ]; then say "This node has joined before."; return; fi
  BERTH_AGENT_TOKEN=$token BERTH_AGENT_NAME=$name "$prefix/bin/berth-agent" enrol
}

serve() {
  if [ -n "$foreground" ]; then
    say "The agent runs here until Ctrl-C. Later: $prefix/bin/berth-agent run"
    exec "$prefix/bin/berth-agent" run
  fi
  cat >"$unit" <<UNIT
[Unit]
Description=Berth agent: serves this node's GPUs
Documentation=$PORTAL
Wants=network-online.target
After=network-online.target podman.socket nvidia-persistenced.service

[Service]
Type=exec
WorkingDirectory=$prefix/current
EnvironmentFile=$prefix/agent.env
ExecStart=$prefix/current/venv/bin/python -m agents run
# Workloads outlive the agent and are taken over by the next one.
KillMode=process
Restart=always
RestartSec=2
TimeoutStopSec=90
LimitNOFILE=65536
OOMScoreAdjust=-900

[Install]
WantedBy=multi-user.target
UNIT
  systemctl daemon-reload
  systemctl enable --quiet berth-agent.service
  systemctl restart berth-agent.service
  say "The agent runs as berth-agent.service. Its log: journalctl -u berth-agent -f"
}

remove_agent() {
  if [ -f "$unit" ]; then
    systemctl disable --quiet --now berth-agent.service || true
    rm -f "$unit"; systemctl daemon-reload || true
  fi
  rm -rf "$prefix/releases" "$prefix/current" "$prefix/bin/berth-agent" "$prefix/agent.env"
  say "The agent is removed. Its identity and journal stay in $state; workloads that still run end with their windows."
}

main() {
  read_options "$@"
  if [ -n "$remove" ]; then remove_agent; exit 0; fi
  check_machine
  install_release
  write_settings
  switch_release
  prepare_podman
  join
  serve
}

# Called at the end, so that a download that was cut short does nothing.
main "$@"
{% endautoescape %}
