"""Shipped handlers by name."""

SHIPPED = {
    "efficientnet_lite": "penstock.worker.engines.torch.handlers.efficientnet_lite",
    "sentences": "penstock.worker.engines.torch.handlers.sentences",
    "text_classifier": "penstock.worker.engines.torch.handlers.text_classifier",
}
"""Each is a module with one class of a ``Handler``; imported only by an engine that runs it."""
