// Executes a step program as it is, on one rank: buffers live from the first op that touches them
// to the last, ops are issued in order on their streams, waits become events.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "core/program.h"
#include "core/trace.h"
#include "runtime/backend.h"
#include "runtime/token_source.h"

namespace trireme::runtime {

// What one step on one rank gave.
struct StepResult {
  double loss = 0;           // mean over the global batch
  bool has_loss = false;     // only ranks of the role that computes it
  double gradient_norm = 0;  // before clipping
  bool has_gradient_norm = false;
  Seconds duration;          // from the first op issued to the last one's end
  double began = 0;          // on the host's steady clock, seconds
  std::vector<OpTimes> ops;  // when timed
};

class RankExecutor {
 public:
  // Allocates the persistent buffers. `program` and `backend` must outlive it.
  RankExecutor(const StepProgram& program, Rank rank, Backend& backend);

  // Sets weights and masters to the seed's initial values, which depend on the tensor's name and
  // the element's place in it alone: norms' weights 1 (0 where kept minus one), biases and lora_b
  // 0, everything else normal with the model's deviation.
  void initialise(std::uint64_t seed);

  // Runs one step on the sequences [first_sequence, + global batch) of `tokens`. Throws Error as
  // Backend::end_step.
  StepResult step(const StepSettings& settings, const TokenSource& tokens,
                  std::int64_t first_sequence, Seconds timeout);

  // The values of one slice that this rank holds (core: parameter_slices), and setting them.
  std::vector<double> read_slice(const ParameterSlice& slice);
  void write_slice(const ParameterSlice& slice, std::span<const double> values);
  [[nodiscard]] const StepProgram& program() const { return *program_; }
  [[nodiscard]] const Program& role() const { return *role_; }
  [[nodiscard]] Rank rank() const { return rank_; }

 private:
  [[nodiscard]] View view_of(const Operand& operand) const;
  void issue(std::uint32_t op);
  void fill_tokens(const TokenSource& tokens, std::int64_t first_sequence);
  [[nodiscard]] double read_scalar(const Operand& operand);

  const StepProgram* program_;
  const Program* role_;
  Rank rank_;
  Backend* backend_;
  std::vector<std::int64_t> offsets_;                // first element of each operand on this rank
  std::vector<void*> addresses_;                     // by buffer
  std::vector<std::vector<BufferId>> born_, dying_;  // transient buffers, by op
};

// Number of sequences of one step over all ranks.
std::int64_t global_batch_of(const StepProgram& program);

// The initial values of one parameter under a seed, by the element's place in the whole tensor.
class InitialValues {
 public:
  InitialValues(std::uint64_t seed, const Parameter& parameter, const Arithmetic& arithmetic);
  [[nodiscard]] double at(std::int64_t row, std::int64_t column) const;
  [[nodiscard]] bool is_normal() const { return rule_ == Rule::kNormal; }
  // Of a slice of the parameter, when its values are normal.
  [[nodiscard]] NormalFill fill_of(const ParameterSlice& slice) const;

 private:
  enum class Rule : std::uint8_t { kOne, kZero, kNormal } rule_ = Rule::kNormal;
  std::uint64_t key_ = 0;
  std::int64_t columns_ = 1;
  double deviation_ = 0;
};

}  // namespace trireme::runtime
