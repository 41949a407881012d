"""A task of your own: problems, a prompt and a verifier give both environments."""

import gymnasium as gym

from llm_envs import register_task

capitals = {"Chile": "Santiago", "Cuba": "Havana", "Peru": "Lima", "Iran": "Tehran", "Italy": "Rome", "Japan": "Tokyo"}
problems = [{"country": country, "answer": capital} for country, capital in capitals.items()]
register_task(
    "Capitals",
    problems={"train": problems[:4], "test": problems[4:]},
    prompt="The capital of {country} is ",  # what it does not show, here the answer, only the verifier sees
    verifier="exact_match",
    max_new_tokens=16,
)

env = gym.make("llm_envs/CapitalsText-v0", split="test")  # llm_envs/Capitals-v0 is the same, token by token
prompt, info = env.reset(seed=0)
answer = "Tokyo" if "Japan" in prompt else "Rome"  # a policy goes here
_, reward, terminated, truncated, info = env.step(answer)
print(prompt + answer, reward)
