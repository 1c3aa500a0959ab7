"""Shadow traffic: what one version has answered is asked of another one, unseen, under caps, shed first."""

from penstock.gateway.shadow.asking import Asking as Asking
from penstock.gateway.shadow.comparing import Comparing as Comparing
from penstock.gateway.shadow.copies import Left as Left
from penstock.gateway.shadow.shadows import Shadows as Shadows
