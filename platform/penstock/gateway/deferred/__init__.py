"""Deferred work as callers see it: jobs, files, batches, stored responses, webhooks.

Each file has its routes and the port of the service behind them. It must not know stores, runners or the pipeline.
"""
