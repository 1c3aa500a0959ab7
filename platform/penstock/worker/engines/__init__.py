"""Engines: unmodified vLLM, or torch handlers, as a child process.

The only room that imports torch and vllm. An engine does not start without the functions for which a module here was
written. The modules that the agent uses (``vllm``, ``process``, ``translate``) import neither; ``launch`` and
``zygote`` import them inside functions.
"""
