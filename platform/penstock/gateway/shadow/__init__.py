"""Shadow traffic: what one version has answered is asked of another one, unseen, under caps, shed first."""

from penstock.gateway.shadow.shadows import Shadows as Shadows
