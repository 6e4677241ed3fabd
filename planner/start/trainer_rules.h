// What programs around transformers' Trainer refuse, and their words for what `check` advises.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "planner/start/launch_rules.h"

namespace trireme::planner {

std::span<const LaunchRule> trainer_rules();
// A fix, which the format's tables and keys word, in the words of the trainer that the file starts;
// what it has no word for is left out. As it is where the file starts none.
std::string in_own_words(const LaunchConfig& config, std::string_view fix);
// How the program of a Trainer's run spells what a switch (KEY=VALUE of --set, recompute=,
// offload=) does; empty: it has no word of its own, or the file is of no such run.
std::string_view trainer_spelling(const LaunchConfig& config, std::string_view setting);
// The batch of a plan in the run's own keys; empty where the file is of no such run.
std::string trainer_batch(const LaunchConfig& config, const Plan& plan);

}  // namespace trireme::planner
