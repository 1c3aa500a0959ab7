"""The contract between the platform and whatever deploys it: what each process needs, as data.

`penstock contract` prints it; the printed file is kept beside the infrastructure that reads it, and a test compares
them. It must not know what reads it: no word of a cloud; of a cluster
only what the controller itself asks of its API.
"""
