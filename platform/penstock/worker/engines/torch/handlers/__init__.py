"""Shipped handlers by name."""

SHIPPED = {
    "efficientnet_lite": "penstock.worker.engines.torch.handlers.efficientnet_lite",
    "sentences": "penstock.worker.engines.torch.handlers.sentences",
    "text_classifier": "penstock.worker.engines.torch.handlers.text_classifier",
}
"""Modules with one ``Handler`` class each; imported only by an engine that runs it."""
