#include "planner/lower/messages.h"

#include "planner/lower/send_waits.h"
#include "planner/plan/stages.h"

namespace trireme::planner::lowering {
namespace {

bool is_forward(const Action& action) {
  return action.kind == ActionKind::kForward;
}

bool has_v(const Plan& plan) {
  return is_in_v(plan.schedule) && plan.pipeline > 1;
}

}  // namespace

MoreStreams more_streams(const Job& job, const Plan& plan) {
  return has_v(plan)         ? MoreStreams::kHostAndV
         : job.offload.any() ? MoreStreams::kHost
                             : MoreStreams::kNone;
}

StageMessages::StageMessages(const Plan& plan, const Shape& shape, const GroupAxis& stages,
                             std::int64_t stage, const StageParameters& parameters,
                             const std::vector<Action>& actions, bool blocking,
                             ProgramBuilder& builder)
    : plan_(plan),
      shape_(shape),
      stages_(stages),
      stage_(stage),
      parameters_(parameters),
      actions_(actions),
      builder_(builder),
      waits_(waits_for_sends(plan, stage, blocking)),
      inputs_(actions.size()),
      sends_(actions.size(), kNoOp) {
  if (has_v(plan)) {
    handed_outputs_.resize(static_cast<std::size_t>(plan.micro_batches));
    handed_gradients_.resize(handed_outputs_.size());
  }
}

std::int64_t StageMessages::chunk_of(const Action& action) const {
  return chunk_of_rank(plan_, stage_, action.chunk);
}

std::int64_t StageMessages::source_of(const Action& action) const {
  const Chunk& chunk = parameters_.chunks[static_cast<std::size_t>(action.chunk)];
  if (is_forward(action)) {
    return chunk.embedding ? -1 : chunk_of(action) - 1;
  }
  // Whether something is trained below the chunk's end: else nothing comes back.
  const bool reads = parameters_.trained.lowest() < chunk.last;
  const bool starts = action.kind != ActionKind::kWeightGradient && !chunk.head && reads;
  return starts ? chunk_of(action) + 1 : -1;
}

// Of looped chunks the next one is on the next rank, if there is another one.
bool StageMessages::is_here(std::int64_t chunk) const {
  return has_v(plan_) && rank_of_chunk(plan_, chunk) == stage_;
}

// Ranks between this stage and the one that has this chunk.
std::int32_t StageMessages::peer(std::int64_t chunk) const {
  return static_cast<std::int32_t>((rank_of_chunk(plan_, chunk) - stage_) * stages_.stride);
}

// The message's number within its channel and the chunk it comes from.
std::uint32_t StageMessages::tag(std::int64_t from, const Action& action) const {
  return static_cast<std::uint32_t>(from * plan_.micro_batches + action.micro_batch);
}

Stream StageMessages::stream_of(const Action& action, Stream of_first, Stream of_second) const {
  return has_v(plan_) && action.chunk > 0 ? of_second : of_first;
}

void StageMessages::receive(std::uint32_t i) {
  const Action& action = actions_[i];
  const std::int64_t from = source_of(action);
  const bool forward = is_forward(action);
  builder_.origin = {forward ? Phase::kForward : Phase::kBackward, action.chunk, -1,
                     action.micro_batch};
  if (from < 0 || is_here(from)) {
    return;
  }
  inputs_[i] = builder_.buffer(forward ? "received" : "received_gradient",
                               shape_.local_tokens * shape_.hidden, ElementType::kCompute);
  builder_.recv(forward ? "recv_forward" : "recv_backward",
                {peer(from), forward ? kForwardChannel : kBackwardChannel, tag(from, action)},
                inputs_[i],
                forward ? stream_of(action, Stream::kRecvForward, Stream::kRecvForwardBack)
                        : stream_of(action, Stream::kRecvBackward, Stream::kRecvBackwardBack));
}

Operand StageMessages::input(std::uint32_t i) const {
  const Action& action = actions_[i];
  const std::int64_t from = source_of(action);
  if (from < 0 || !is_here(from)) {
    return inputs_[i];
  }
  return (is_forward(action) ? handed_outputs_
                             : handed_gradients_)[static_cast<std::size_t>(action.micro_batch)];
}

void StageMessages::hand_on(std::uint32_t i, const Operand& operand) {
  const Action& action = actions_[i];
  const bool forward = is_forward(action);
  const std::int64_t from = chunk_of(action);
  const std::int64_t to = from + (forward ? 1 : -1);
  if (is_here(to)) {
    (forward ? handed_outputs_ : handed_gradients_)[static_cast<std::size_t>(action.micro_batch)] =
        operand;
    return;
  }
  builder_.origin.layer = -1;
  sends_[i] = builder_.send(
      forward ? "send_forward" : "send_backward",
      {peer(to), forward ? kForwardChannel : kBackwardChannel, tag(from, action)}, operand,
      forward ? stream_of(action, Stream::kSendForward, Stream::kSendForwardBack)
              : stream_of(action, Stream::kSendBackward, Stream::kSendBackwardBack));
}

void StageMessages::wait_for_sends(std::uint32_t i) {
  for (const std::uint32_t sent : waits_[i]) {
    builder_.also_wait(sends_[sent]);
  }
}

}  // namespace trireme::planner::lowering
