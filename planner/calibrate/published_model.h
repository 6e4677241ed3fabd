// The shape and the framework of a printed row.
#pragma once

#include <string>
#include <vector>

#include "planner/calibrate/published.h"

namespace trireme::planner {

// A reason to skip the row: thrown here, caught in row_to_case.
struct Skip {
  std::string reason;
};

// Throws Skip when the row lacks what cannot be assumed; appends what was assumed.
models::Transformer model_of(const PublishedRow& row, std::vector<std::string>& assumed);
Framework framework_of(const PublishedRow& row, const models::Transformer& model,
                       std::vector<std::string>& assumed);
models::AttentionKernel attention_of(const PublishedRow& row, const Framework& framework,
                                     std::vector<std::string>& assumed);
topologies::Precision precision_of(const PublishedRow& row);

}  // namespace trireme::planner
