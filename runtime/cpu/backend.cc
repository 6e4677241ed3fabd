#include "runtime/cpu/backend.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <limits>
#include <map>
#include <numeric>
#include <vector>

#include "core/check.h"
#include "core/error.h"
#include "core/rendezvous.h"
#include "runtime/clock.h"
#include "runtime/cpu/collective.h"
#include "runtime/cpu/compute.h"
#include "runtime/cpu/narrow.h"
#include "runtime/cpu/storage.h"
#include "runtime/cpu/streams.h"
#include "runtime/cpu/task.h"

namespace trireme::runtime::cpu {
namespace {

template <typename T>
class CpuBackend : public Backend {
 public:
  CpuBackend(const StepProgram& program, Rank rank, Exchange& exchange, const CpuOptions& options)
      : program_(&program),
        role_(&program.roles[index_of(role_of(program, rank))]),
        rank_(rank),
        exchange_(&exchange),
        options_(options),
        context_{.program = &program,
                 .rank = rank,
                 .settings = {},
                 .round_to_bf16 = options.arithmetic == Arithmetic::kBf16},
        storage_(program, *role_),
        streams_(role_->streams.size(), options.shuffle_seed),
        done_(role_->ops.size()),
        times_(role_->ops.size()) {}

  void* allocate(BufferId id) override {
    void* block = storage_.allocate(id);
    const Buffer& buffer = role_->buffers[index_of(id)];
    if (options_.poison && !buffer.persistent && buffer.type == ElementType::kNarrow) {
      std::fill_n(pointer<std::uint8_t>(block), buffer.elements, kNarrowNan);
    } else if (options_.poison && !buffer.persistent && buffer.type != ElementType::kToken) {
      std::fill_n(pointer<T>(block), buffer.elements, std::numeric_limits<T>::quiet_NaN());
    }
    return block;
  }
  void release(BufferId id) override { storage_.release(id); }
  [[nodiscard]] MemoryUse memory() const override { return {storage_.peak(), storage_.peak()}; }

  void write(const View& view, std::span<const double> values) override {
    std::transform(values.begin(), values.end(), pointer<T>(view.data),
                   [](double value) { return static_cast<T>(value); });
    if (context_.round_to_bf16 && view.type == ElementType::kCompute) {
      round_to_bf16(std::span<T>(pointer<T>(view.data), values.size()));
    }
  }
  void read(const View& view, std::span<double> values) override {
    std::copy_n(pointer<T>(view.data), values.size(), values.begin());
  }
  void write_tokens(const View& view, std::span<const std::int32_t> tokens) override {
    std::copy(tokens.begin(), tokens.end(), pointer<std::int32_t>(view.data));
  }

  void begin_step(const StepSettings& settings) override {
    context_.settings = settings;
    std::fill(done_.begin(), done_.end(), false);
    unfinished_ = 0;
    streams_.begin_step(settings.step);
    start_ = settings.began;
  }

  void wait(StreamId stream, OpId earlier) override { streams_.wait(stream, earlier); }
  void compute(OpId op, StreamId stream, const Work& /*work*/,
               std::span<const View> views) override {
    enqueue(op, stream, {views.begin(), views.end()});
  }
  void all_reduce(OpId op, StreamId s, GroupId /*g*/, Reduction /*r*/, const View& in,
                  const View& out) override {
    enqueue(op, s, {in, out});
  }
  void all_gather(OpId op, StreamId s, GroupId /*g*/, const View& in, const View& out) override {
    enqueue(op, s, {in, out});
  }
  void reduce_scatter(OpId op, StreamId s, GroupId /*g*/, const View& in,
                      const View& out) override {
    enqueue(op, s, {in, out});
  }
  void all_to_all(OpId op, StreamId s, const AllToAll& /*kind*/,
                  std::span<const View> views) override {
    enqueue(op, s, {views.begin(), views.end()});
  }
  void broadcast(OpId op, StreamId s, GroupId /*g*/, std::uint32_t /*root*/, const View& in,
                 const View& out) override {
    enqueue(op, s, {in, out});
  }
  void shift(OpId op, StreamId s, GroupId /*g*/, const View& in, const View& out) override {
    enqueue(op, s, {in, out});
  }
  void send(OpId op, StreamId s, const Send& /*message*/, const View& view) override {
    enqueue(op, s, {view});
  }
  void receive(OpId op, StreamId s, const Recv& /*message*/, const View& view) override {
    enqueue(op, s, {view});
  }
  void copy(OpId op, StreamId s, const View& from, const View& to) override {
    enqueue(op, s, {from, to});
  }

  std::vector<OpTimes> end_step(Seconds timeout) override {
    double last_progress = now_seconds();
    while (unfinished_ > 0) {
      const std::uint64_t seen = exchange_->changes();
      if (progress(true)) {
        last_progress = now_seconds();
        continue;
      }
      if (exchange_->failed()) {
        throw Error(exchange_->name(rank_),
                    fmt::format("stopped in {}: {}", describe_op(*role_, blocked_op()),
                                exchange_->failure()));
      }
      if (now_seconds() - last_progress > timeout.value) {
        throw Error(exchange_->name(rank_),
                    fmt::format("made no progress for {:.3g} s in {}{}", timeout.value,
                                describe_op(*role_, blocked_op()), waited_for()));
      }
      exchange_->wait_change(seen, Seconds(0.05));
    }
    return context_.settings.timed ? times_ : std::vector<OpTimes>{};
  }

 private:
  template <typename U>
  static U* pointer(void* address) {
    return static_cast<U*>(address);
  }
  [[nodiscard]] double clock() const { return now_seconds() - start_; }

  void enqueue(OpId op, StreamId stream, std::vector<View> views) {
    Task task;
    task.op = op;
    task.views = std::move(views);
    for (const View& view : task.views) {
      storage_.add_user(view.buffer);
    }
    ++unfinished_;
    if (streams_.add(stream, std::move(task))) {
      progress(false);
    }
  }

  // Runs what can run; true when anything moved. `everything`: until nothing moves.
  bool progress(bool everything) {
    return streams_.run(
        [this](Task& task) {
          return !advance(task)             ? Progress::kNone
                 : done_[index_of(task.op)] ? Progress::kEnded
                                            : Progress::kSome;
        },
        everything);
  }

  bool advance(Task& task) {
    const Op& op = role_->ops[index_of(task.op)];
    switch (task.state) {
      case Task::State::kQueued:
        if (!std::all_of(task.waits.begin(), task.waits.end(),
                         [&](OpId id) { return done_[index_of(id)]; })) {
          return false;
        }
        task.times.ready = task.times.start = clock();
        exchange_->set_current(rank_, task.op);
        return start(task, op);
      case Task::State::kMeeting:
        return exchange_->all_arrived(*task.meeting) && meet(task, op);
      case Task::State::kReading:
        return exchange_->all_finished(*task.meeting) && conclude(task);
      case Task::State::kSent:
        return exchange_->is_received(*task.message) && delivered(task);
      case Task::State::kReceiving:
        return take(task, op);
    }
    return false;
  }

  bool start(Task& task, const Op& op) {
    if (const auto* compute = std::get_if<Compute>(&op.kind)) {
      run_kernel<T>(context_, role_->works[compute->work], task.views);
      return finish(task);
    }
    if (std::holds_alternative<Copy>(op.kind)) {
      const std::int64_t width = width_of(program_->widths, task.views[0].type);
      std::memmove(task.views[1].data, task.views[0].data,
                   static_cast<std::size_t>(task.views[0].count * width));
      return finish(task);
    }
    if (const auto* sending = std::get_if<Send>(&op.kind)) {
      const View& view = task.views[0];
      task.message = exchange_->send(rank_, neighbour(sending->peer), sending->channel,
                                     {.data = view.data,
                                      .count = view.count,
                                      .tag = sending->tag,
                                      .sent = task.times.ready + start_,
                                      .bytes = size_of(view.count, view.type)});
      task.state = Task::State::kSent;
      return true;
    }
    if (std::holds_alternative<Recv>(op.kind)) {
      task.state = Task::State::kReceiving;
      return true;
    }
    arrive(task, op);
    return true;
  }

  [[nodiscard]] Rank neighbour(std::int32_t peer) const {
    const std::int64_t other = static_cast<std::int64_t>(index_of(rank_)) + peer;
    TRIREME_CHECK(other >= 0);
    TRIREME_CHECK(other < program_->ranks);
    return Rank(static_cast<std::uint32_t>(other));
  }

  void arrive(Task& task, const Op& op) {
    const GroupId group = group_of(op.kind);
    const View& view = task.views[0];
    Arrival arrival{.members = members_of(*program_, group, rank_),
                    .place = static_cast<std::size_t>(index_in_group(*program_, group, rank_)),
                    .group = group,
                    .stream = role_->streams[index_of(op.stream)],
                    .round = rounds_[{group, op.stream}]++,
                    .brought = {.data = view.data, .bytes = size_of(view.count, view.type)},
                    .ready = task.times.ready + start_,
                    .label = fmt::format("{} {} of {} elements", kind_name(op.kind),
                                         op_label(*role_, op), view.count)};
    TRIREME_CHECK(arrival.members[arrival.place] == rank_);
    const auto* exchange = std::get_if<AllToAll>(&op.kind);
    if (exchange != nullptr && exchange->row > 0) {
      const View& counts = task.views[2];
      const std::span<const std::int32_t> rows(pointer<std::int32_t>(counts.data),
                                               static_cast<std::size_t>(counts.count));
      task.rows = {view.data, rows.data(), rows.size() / arrival.members.size()};
      const auto sent = std::accumulate(rows.begin(), rows.end(), std::int64_t{0});
      arrival.brought = {.data = &task.rows,
                         .rows = &task.rows,
                         .bytes = size_of(sent * exchange->row, view.type)};
    }
    task.place = arrival.place;
    task.meeting = exchange_->arrive(arrival);
    task.state = Task::State::kMeeting;
  }
  [[nodiscard]] std::size_t size_of(std::int64_t elements, ElementType type) const {
    return static_cast<std::size_t>(elements * width_of(program_->widths, type));
  }

  // Everybody is here: computes the own result beside the inputs, which others may still be
  // reading.
  bool meet(Task& task, const Op& op) {
    task.times.start = std::max(
        task.times.ready,
        *std::max_element(task.meeting->ready.begin(), task.meeting->ready.end()) - start_);
    if (task.views[1].type == ElementType::kToken) {
      collect(task, op, token_results_[index_of(op.stream)]);
    } else {
      std::vector<T>& result = results_[index_of(op.stream)];
      collect(task, op, result);
      if (context_.round_to_bf16 && task.views[1].type == ElementType::kCompute) {
        round_to_bf16(std::span<T>(result));
      }
    }
    exchange_->finish_reading(*task.meeting);
    task.state = Task::State::kReading;
    return true;
  }

  template <typename U>
  void collect(const Task& task, const Op& op, std::vector<U>& result) {
    const View& output = task.views[1];
    collect_result<U>(op.kind, task.meeting->inputs, task.place, task.views[0].count, output.count,
                      result);
    if (static_cast<std::int64_t>(result.size()) > output.count) {
      const std::int64_t row = std::get<AllToAll>(op.kind).row;
      throw Error(exchange_->name(rank_),
                  fmt::format("{} brings {} rows, and there is room for {}; give a larger "
                              "expert_load",
                              describe_op(*role_, task.op),
                              static_cast<std::int64_t>(result.size()) / row, output.count / row));
    }
  }

  bool conclude(Task& task) {
    const std::uint32_t stream = index_of(role_->ops[index_of(task.op)].stream);
    if (task.views[1].type == ElementType::kToken) {
      std::copy(token_results_[stream].begin(), token_results_[stream].end(),
                pointer<std::int32_t>(task.views[1].data));
    } else {
      std::copy(results_[stream].begin(), results_[stream].end(), pointer<T>(task.views[1].data));
    }
    return finish(task);
  }

  bool delivered(Task& task) {
    task.times.start = std::max(task.times.ready, task.message->taken - start_);
    return finish(task);
  }

  bool take(Task& task, const Op& op) {
    const auto& receiving = std::get<Recv>(op.kind);
    task.message = exchange_->take(neighbour(receiving.peer), rank_, receiving.channel);
    if (task.message == nullptr) {
      return false;
    }
    const View& view = task.views[0];
    if (task.message->tag != receiving.tag || task.message->count != view.count) {
      throw Error(exchange_->name(rank_),
                  fmt::format("{} expects tag {} and {} elements, the sender brought tag {} and {}",
                              describe_op(*role_, task.op), receiving.tag, view.count,
                              task.message->tag, task.message->count));
    }
    task.times.start = std::max(task.times.ready, task.message->sent - start_);
    std::copy_n(static_cast<const T*>(task.message->data), view.count, pointer<T>(view.data));
    exchange_->acknowledge(*task.message, task.times.ready + start_);
    return finish(task);
  }

  bool finish(Task& task) {
    task.times.end = clock();
    times_[index_of(task.op)] = task.times;
    done_[index_of(task.op)] = true;
    --unfinished_;
    for (const View& view : task.views) {
      storage_.drop_user(view.buffer);
    }
    return true;
  }

  // What this rank is stuck in.
  [[nodiscard]] OpId blocked_op() const {
    const Task* task = streams_.stuck();
    return task != nullptr ? task->op : OpId(0xffffffffU);
  }

  // The ranks it has not heard of: ", waiting for rank 1 on host-b".
  [[nodiscard]] std::string waited_for() const {
    const Task* task = streams_.stuck();
    std::string names;
    if (task != nullptr && task->state == Task::State::kMeeting) {
      const OpKind& kind = role_->ops[index_of(task->op)].kind;
      names = exchange_->missing(*task->meeting, members_of(*program_, group_of(kind), rank_));
    } else if (task != nullptr && task->state == Task::State::kReceiving) {
      names = exchange_->name(neighbour(std::get<Recv>(role_->ops[index_of(task->op)].kind).peer));
    }
    return names.empty() ? "" : ", waiting for " + names;
  }

  const StepProgram* program_;
  const Program* role_;
  Rank rank_;
  Exchange* exchange_;
  CpuOptions options_;
  ComputeContext context_;
  Storage storage_;
  Streams streams_;
  std::vector<char> done_;
  std::vector<OpTimes> times_;
  std::map<std::pair<GroupId, StreamId>, std::int64_t> rounds_;
  std::map<std::uint32_t, std::vector<T>> results_;  // by stream
  std::map<std::uint32_t, std::vector<std::int32_t>> token_results_;
  std::int64_t unfinished_ = 0;
  double start_ = 0;
};

}  // namespace

ElementWidths widths_of(Arithmetic arithmetic) {
  const std::int64_t width = arithmetic == Arithmetic::kFp64 ? 8 : 4;
  return {.compute = width, .master = width, .token = 4};
}

std::unique_ptr<Backend> make_cpu_backend(const StepProgram& program, Rank rank, Exchange& exchange,
                                          const CpuOptions& options) {
  if (program.widths != widths_of(options.arithmetic)) {
    throw Error(program.name, "was lowered for other element widths than the CPU's");
  }
  if (options.arithmetic == Arithmetic::kFp64) {
    return std::make_unique<CpuBackend<double>>(program, rank, exchange, options);
  }
  return std::make_unique<CpuBackend<float>>(program, rank, exchange, options);
}

}  // namespace trireme::runtime::cpu
