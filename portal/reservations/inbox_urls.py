"""Addresses of the inbox and of the mails that were not delivered."""

from django.urls import path

from portal.reservations.views import inbox, mail

urlpatterns = [
    path("inbox/", inbox.inbox, name="inbox"),
    path("inbox/count/", inbox.inbox_count, name="inbox_count"),
    path("inbox/news/", inbox.inbox_news, name="inbox_news"),
    path("inbox/read/", inbox.inbox_read, name="inbox_read"),
    path("inbox/<int:notice_id>/", inbox.notice_open, name="notice_open"),
    path("inbox/<int:notice_id>/read/", inbox.notice_read, name="notice_read"),
    path("mail/", mail.mail_list, name="mail_list"),
    path("mail/retry/", mail.mail_retry_all, name="mail_retry_all"),
    path("mail/<int:delivery_id>/retry/", mail.mail_retry, name="mail_retry"),
]
