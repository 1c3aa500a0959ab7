"""The contract between the platform and its deployment: each process's needs, as data.

`penstock contract` prints it; the infrastructure stores the output. It knows nothing of its readers: no cloud, and of a
cluster only the controller's calls to its API.
"""
