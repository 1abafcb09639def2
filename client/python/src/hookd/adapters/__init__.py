"""hookd in the loops of agent frameworks: one module for each, which imports its framework and nothing else does.

`hookd.adapters.langchain`, `openai_agents`, `claude_agent_sdk`, `google_adk`, `pydantic_ai` and `crewai`. Each asks before
and after a tool runs, when a prompt comes in, and when the agent wants to stop, as far as its framework can be entered
there; what the framework cannot carry out it says with the request, so that hookd downgrades it by its `fallbacks`. The
text of a block ends with `(rule, decision id)`. A halt ends the run with `hookd.AgentHalted`, unless the module says
otherwise. Nothing of it is open where hookd cannot be asked: `OnUnavailable` of the client decides.
"""
