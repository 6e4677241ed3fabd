#include "runtime/cpu/collective.h"

#include <algorithm>
#include <numeric>

#include "core/check.h"

namespace trireme::runtime::cpu {

template <typename T>
void reduce(std::span<const void* const> inputs, Reduction reduction, std::int64_t first,
            std::span<T> output) {
  const auto* leading = static_cast<const T*>(inputs[0]) + first;
  std::copy_n(leading, output.size(), output.begin());
  for (const void* input : inputs.subspan(1)) {
    const T* values = static_cast<const T*>(input) + first;
    for (std::size_t i = 0; i < output.size(); ++i) {
      output[i] =
          reduction == Reduction::kSum ? output[i] + values[i] : std::max(output[i], values[i]);
    }
  }
}

template <typename T>
void concatenate(std::span<const void* const> inputs, std::int64_t first, std::int64_t count,
                 std::span<T> output) {
  TRIREME_CHECK(static_cast<std::int64_t>(output.size()) ==
                count * static_cast<std::int64_t>(inputs.size()));
  auto* to = output.data();
  for (const void* input : inputs) {
    to = std::copy_n(static_cast<const T*>(input) + first, count, to);
  }
}

template <typename T>
void concatenate_rows(std::span<const void* const> senders, std::size_t place, std::int64_t row,
                      std::vector<T>& output) {
  output.clear();
  for (const void* sender : senders) {
    const auto& sent = *static_cast<const SentRows*>(sender);
    const std::int32_t* own = sent.counts + place * sent.each;
    const auto first = std::accumulate(sent.counts, own, std::int64_t{0});
    const auto rows = std::accumulate(own, own + sent.each, std::int64_t{0});
    const T* from = static_cast<const T*>(sent.rows) + first * row;
    output.insert(output.end(), from, from + rows * row);
  }
}

template <typename T>
void collect_result(const OpKind& kind, std::span<const void* const> inputs, std::size_t place,
                    std::int64_t input_count, std::int64_t output_count, std::vector<T>& result) {
  const auto* exchange = std::get_if<AllToAll>(&kind);
  if (exchange != nullptr && exchange->row > 0) {
    concatenate_rows<T>(inputs, place, exchange->row, result);
    return;
  }
  const auto own = static_cast<std::int64_t>(place);
  result.resize(static_cast<std::size_t>(output_count));
  const std::span<T> output(result);
  if (const auto* reduction = std::get_if<AllReduce>(&kind)) {
    reduce<T>(inputs, reduction->reduction, 0, output);
  } else if (std::holds_alternative<ReduceScatter>(kind)) {
    reduce<T>(inputs, Reduction::kSum, own * output_count, output);
  } else if (std::holds_alternative<AllGather>(kind)) {
    concatenate<T>(inputs, 0, input_count, output);
  } else if (exchange != nullptr) {
    const std::int64_t each = output_count / static_cast<std::int64_t>(inputs.size());
    concatenate<T>(inputs, own * each, each, output);
  } else if (std::holds_alternative<Shift>(kind)) {
    const std::size_t before = (place + inputs.size() - 1) % inputs.size();
    concatenate<T>(inputs.subspan(before, 1), 0, output_count, output);
  } else {
    concatenate<T>(inputs.subspan(std::get<Broadcast>(kind).root, 1), 0, output_count, output);
  }
}

template void collect_result<float>(const OpKind&, std::span<const void* const>, std::size_t,
                                    std::int64_t, std::int64_t, std::vector<float>&);
template void collect_result<double>(const OpKind&, std::span<const void* const>, std::size_t,
                                     std::int64_t, std::int64_t, std::vector<double>&);
template void collect_result<std::int32_t>(const OpKind&, std::span<const void* const>, std::size_t,
                                           std::int64_t, std::int64_t, std::vector<std::int32_t>&);
template void concatenate_rows<float>(std::span<const void* const>, std::size_t, std::int64_t,
                                      std::vector<float>&);
template void concatenate_rows<double>(std::span<const void* const>, std::size_t, std::int64_t,
                                       std::vector<double>&);
template void concatenate_rows<std::int32_t>(std::span<const void* const>, std::size_t,
                                             std::int64_t, std::vector<std::int32_t>&);
template void reduce<float>(std::span<const void* const>, Reduction, std::int64_t,
                            std::span<float>);
template void reduce<double>(std::span<const void* const>, Reduction, std::int64_t,
                             std::span<double>);
template void reduce<std::int32_t>(std::span<const void* const>, Reduction, std::int64_t,
                                   std::span<std::int32_t>);
template void concatenate<std::int32_t>(std::span<const void* const>, std::int64_t, std::int64_t,
                                        std::span<std::int32_t>);
template void concatenate<float>(std::span<const void* const>, std::int64_t, std::int64_t,
                                 std::span<float>);
template void concatenate<double>(std::span<const void* const>, std::int64_t, std::int64_t,
                                  std::span<double>);

}  // namespace trireme::runtime::cpu
