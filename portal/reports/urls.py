from django.urls import path

from portal.reports import views

urlpatterns = [
    path("usage/", views.usage, name="usage"),
]
