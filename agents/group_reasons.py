"""Why a group of whole GPUs cannot start, or ends: words of the wire, which the portal says in the reader's language.

The ``detail`` of an event with such a reason is not a sentence but what the reason is about: a node, a port.
"""

PORT_TAKEN = "port_taken"
NO_ADDRESS = "no_address"
NO_INTERFACE = "no_interface"
NO_NETWORK = "no_network"
UNRESOLVED = "unresolved"
UNREACHABLE = "unreachable"
DRIVER_DIFFERS = "driver_differs"
# Found before the workload starts: nothing has run, so nothing is billed.
CHECKS = frozenset({PORT_TAKEN, NO_ADDRESS, NO_INTERFACE, NO_NETWORK, UNRESOLVED, UNREACHABLE, DRIVER_DIFFERS})

# Another rank's node was not heard for too long; its workload ended otherwise than well; its lease was taken back.
PEER_LOST = "peer_lost"
PEER_FAILED = "peer_failed"
PEER_WITHDRAWN = "peer_withdrawn"
