"""The controller's decisions: what exists, what runs, what is published to the gateways; ``loop.py`` shows their
order.
"""
