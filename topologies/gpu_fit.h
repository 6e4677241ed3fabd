// What a profile knows about one GPU: which of its fits, and which of its tables, answer for a card
// and a precision.
#pragma once

#include <optional>

#include "topologies/cluster.h"
#include "topologies/profile.h"

namespace trireme::topologies {

// The fit of a GPU: its own, else that of the nearest card by architecture, power and memory
// (marked as carried, with its source named), with its shares of the peak as this card's power
// allows: as published for both cards, else with the watts of a peak FLOP/s. Measured
// tables come along where multiprocessors are as many. Cards under a power limit stand in for none.
// A profile measured on another card of the architecture moves in the same way (marked as
// transferred); of another architecture, or of a part that runs under a power limit, it says less
// than what ships. Throws Error when the profile has no GPU.
GpuFit fit_for(const Gpu& gpu, const Profile& profile);

// Whose measured products answer for `precision`: its own; bf16 and fp16 run on the same units and
// stand in for each other. None: the model alone answers.
std::optional<MatmulPrecision> matmul_table(const GpuFit& fit, Precision precision);

// The dense peak of a precision in FLOP/s; where the card has no such units, of the next wider
// ones. Single precision without a figure is taken as an eighth of half precision. Throws Error
// when no peak is known.
double peak_of(const Gpu& gpu, Precision precision);

Precision precision_of(MatmulPrecision precision);

}  // namespace trireme::topologies
