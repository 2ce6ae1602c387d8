"""What the metrics of training mean, one sentence each: the one home of these words."""

from __future__ import annotations

NEAR_RETURNS = " near the discounted returns of the data"  # said where these are shown

# By the name in metrics.jsonl: what it is, and what is good.
MEANING: dict[str, str] = {
    "critic/loss": "Error of the critics against their own moving target; should stay bounded, and need not fall.",
    "critic/td_loss": "The critics' error without the conservative term; should stay bounded, and need not fall.",
    "critic/q_data": f"Value of the data's actions; should settle{NEAR_RETURNS}, and a"
    " straight line at the end is an unfinished critic: train longer.",
    "critic/q_target": "What the critics are trained towards; should lie close to critic/q_data.",
    "critic/conservative_gap": "Value of other actions minus that of the data's; should come down and stay below or"
    " near zero.",
    "critic/bc_distance": "Squared distance of the policy's next action to the data's, as the critics are charged"
    " for it; should come down and settle.",
    "actor/loss": "What the policy minimises; its size depends on the values, so only its settling tells something.",
    "actor/bc_loss": "Squared distance of the policy's action to the data's; should come down and settle above"
    " zero, at which the policy would be a clone.",
    "actor/bc_distance": "Squared distance of the policy's action to the data's; should come down and settle above"
    " zero, at which the policy would be a clone.",
    "actor/q": "Value of the policy's actions; a little above critic/q_data is an improvement, far above it is"
    " overestimation.",
    "actor/entropy": "How random the policy is; should fall and settle, not collapse.",
    "actor/log_prob": "How probable the policy holds the data's actions; should rise and settle.",
    "actor/advantage": "How much better the data's actions are than what is expected; near or below zero on average"
    " is normal.",
    "actor/weight": "Mean weight of the data's actions; about 1 throughout means that the policy nearly clones the"
    " data: scale the rewards (transforms.reward_range_scaling) or change beta.",
    "actor/max_weight": "Largest weight in a batch; about 1 throughout means that the policy nearly clones the"
    " data, very large that a few transitions decide.",
    "value/loss": "Error of the state values; should come down and settle.",
    "value/mean": f"Learned value of the data's states; should settle{NEAR_RETURNS}.",
    "value/return": "Mean discounted return that the values are fitted to; what value/mean should come to.",
}
