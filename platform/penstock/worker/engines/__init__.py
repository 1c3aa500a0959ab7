"""Engines: unmodified vLLM, or torch handlers, as a child process. The only room that imports torch and vllm.

The modules that the agent uses (``vllm``, ``process``, ``translate``) import neither; ``launch`` and ``zygote``, which
run in the engine's process, import them inside functions.
"""
