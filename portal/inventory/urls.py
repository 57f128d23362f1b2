from django.urls import path

from portal.inventory import views, weight_views

urlpatterns = [
    path("nodes/", views.node_list, name="nodes"),
    path("nodes/add/", views.node_add, name="node_add"),
    path("nodes/pools/add/", views.pool_add, name="pool_add"),
    path("nodes/pools/<int:pool_id>/", views.pool_edit, name="pool"),
    path("nodes/pools/<int:pool_id>/weights/<int:profile_id>/", weight_views.profile_weight, name="profile_weight"),
    path("nodes/<int:node_id>/", views.node_detail, name="node"),
    path("nodes/<int:node_id>/token/", views.node_token, name="node_token"),
    path("nodes/<int:node_id>/rack/", views.node_rack, name="node_rack"),
    path("nodes/<int:node_id>/retire/", views.node_retire, name="node_retire"),
]
