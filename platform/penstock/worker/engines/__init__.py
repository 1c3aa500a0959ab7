"""What runs a model: unmodified vLLM as a child process. The only room that imports torch and vllm.

The modules that the agent itself uses (``vllm``, ``process``, ``translate``) import neither; only ``launch`` and
``zygote``, which run in the engine's own process, do, and there inside functions.
"""
