"""Shadow traffic: copies of answered requests to other versions, invisible to callers, under caps, shed first."""

from penstock.gateway.shadow.comparing import Comparing as Comparing
from penstock.gateway.shadow.copies import Left as Left
from penstock.gateway.shadow.shadows import Shadows as Shadows
from penstock.gateway.shadow.unseen import Unseen as Unseen
