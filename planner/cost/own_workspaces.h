// Device memory that this project's CUDA runtime has beside the buffers of a step program.
#pragma once

#include "planner/plan/job.h"
#include "planner/plan/plan.h"
#include "planner/plan/shape.h"

namespace trireme::planner {

// Bytes: the workspace of matrix products (runtime/cuda/matmul.h), partial sums of the gradients of
// norms and biases (runtime/cuda/norm.cu), and what cuDNN's attention asks for its backward, as
// version 9.14 on H200 has it: an fp32 sum of the queries' gradient, and keys' and values'
// gradients of every query head where heads share them. Of 67 runs it holds to 5 MiB
// (docs/gpu_measurements.md). `shape`: shape_of the plan.
double own_workspaces(const Job& job, const Plan& plan, const Shape& shape);

}  // namespace trireme::planner
