"""The contract between the platform and its deployment: each process's needs, as data.

`penstock contract` prints it; the infrastructure keeps the printed file, and a test compares them. It knows nothing of
its readers: no cloud, and of a cluster only the controller's own requests to its API.
"""
