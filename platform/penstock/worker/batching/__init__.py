"""Requests of classic models computed together: pure policies, one thin collector; it knows neither torch nor HTTP."""
