// What the ranks of a launched run must have been told alike: every argument that changes numbers,
// messages or how often ranks meet.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "runtime/agreement.h"
#include "runtime/token_source.h"
#include "runtime/train.h"
#include "tools/run_report.h"

namespace trireme::tools {

// `data` is what data_text says. Arguments that a person gave come before what follows from them.
std::vector<runtime::Told> told_of(const RunDescription& run,
                                   const runtime::TrainSettings& settings, const std::string& data);

// A file of tokens by its content, since hosts may keep it in unlike places: its bytes and a
// fingerprint of the first global batch. Empty `file`: synthetic tokens.
std::string data_text(const std::string& file, const runtime::TokenSource& tokens,
                      std::int64_t sequences, std::int64_t sequence);

}  // namespace trireme::tools
