// Models by their names: which preset a word or a text means.
#pragma once

#include <string>
#include <string_view>

namespace trireme::models {

// A name without its marks and capitals: "llama3170b" of "Llama-3.1_70B".
std::string letters_and_digits(std::string_view text);

// The preset whose name occurs in `text` whatever the separators and capitals
// (llama31_70b_pretrain_config, meta-llama/Llama-3.1-70B): the longest; empty when none does.
std::string preset_in(std::string_view text);

// The preset that `text` is a name of, as people and hubs write it (llama3-8b,
// Qwen/Qwen3-4B-Instruct-2507, deepseek-r1): with or without its owner, and without what only says
// how the weights were trained on or stored. Empty when there is none.
std::string preset_meant(const std::string& text);

// What the models of the family that `text` names have that no description here can hold ("layers
// of linear attention"); empty where nothing is known of the name.
std::string undescribed_part(std::string_view text);

// For the error about an unknown name: the presets of which it only leaves something out (llama-70b
// of llama-3.1-70b, mixtral of mixtral-8x7b), newest first; where there are none, the nearest by
// edits. Joined with ", ".
std::string nearest_presets(const std::string& name);

}  // namespace trireme::models
