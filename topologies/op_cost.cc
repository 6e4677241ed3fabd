#include "topologies/op_cost.h"

#include <algorithm>
#include <cmath>

#include "core/check.h"
#include "core/error.h"
#include "topologies/attention_blocks.h"
#include "topologies/grouped_tiles.h"

namespace trireme::topologies {
namespace {

// Output tiles that vendor libraries use, and the share of the best rate that one reaches.
struct Tile {
  double m, n, rate;
};
constexpr std::array<Tile, 5> kTiles = {
    {{128, 256, 1.0}, {256, 128, 1.0}, {128, 128, 0.93}, {64, 128, 0.75}, {64, 64, 0.6}}};

// Casts that note a largest value, or find a scale for each block, move what plain ones do: they
// take as long where they were not measured themselves.
Kernel measured_as(Kernel kernel) {
  if (kernel == Kernel::kDelayedCast || kernel == Kernel::kBlockCast) {
    return Kernel::kNarrowCast;
  }
  if (kernel == Kernel::kDelayedBoth || kernel == Kernel::kBlockBoth) {
    return Kernel::kNarrowBoth;
  }
  if (kernel == Kernel::kBlockTurned) {
    return Kernel::kNarrowTurned;
  }
  return kernel == Kernel::kExpertDelayedCast   ? Kernel::kExpertNarrowCast
         : kernel == Kernel::kExpertDelayedBoth ? Kernel::kExpertNarrowBoth
                                                : kernel;
}

// Share of the last, partly filled wave that is really lost: libraries split K or stream tiles when
// few are left.
constexpr double kWaveLoss = 0.6;
// Backward of fused attention over its forward rate, per FLOP, beside its passes over memory (H200,
// cuDNN; FlashAttention-2 about the same).
constexpr double kBackwardRate = 0.88;
// Bytes an element of the queries that backward moves besides: the output and its gradient read
// (the row sums), the queries' gradient cleared and summed in fp32, then read and written in 16
// bits (Dao 2023, algorithm 2).
constexpr double kBackwardBytes = 18;
// Products whose rows are no multiple of 16 bytes take scalar loads; from Ampere on those that are
// no multiple of 128 bytes miss the kernels with the widest loads (NVIDIA's guide to matrix
// products; BigScience lost a quarter on a hidden size of 14400 over 8 ranks, where 1800, 5400 and
// 7200 are none, against 14336).
constexpr double kMisalignedRate = 0.45;
constexpr double kPartlyAlignedRate = 0.8;
// From Hopper on they also miss the tensor memory accelerator and the products written for it: 0.31
// to 0.40 of the rate with rows of whole 4 bytes; of 2, as a vocabulary of 50257 has, 0.12 to 0.15
// written and 0.17 to 0.22 read (H200, cuBLAS 13.0, 1,024 to 16,384 rows of 768 to 4,096 to
// vocabularies of 25,129 to 50,264).
constexpr double kUndescribedRate = 0.35;
constexpr double kOddWrittenRate = 0.13;
constexpr double kOddReadRate = 0.19;
// Bytes of an element of a result that is written as it comes, not added to one in memory.
constexpr double kNarrowResult = 2;
// Width in ln(size) over which a measured product speaks for its neighbours.
constexpr double kAnchorWidth = 0.35;

double constant(const GpuFit& fit, const std::string& name) {
  const auto found = fit.constants.find(name);
  if (found == fit.constants.end()) {
    throw Error("profile", "the GPU constant \"" + name + "\" is missing (" + fit.source + ")");
  }
  return found->second;
}

double element_bytes(Precision precision) {
  switch (precision) {
    case Precision::kFp32:
    case Precision::kTf32:
      return 4;
    case Precision::kBf16:
    case Precision::kFp16:
      return 2;
    case Precision::kFp8:
      return 1;
    case Precision::kFp4:
      return 0.5;
  }
  return 2;
}

// Work of the tiles over the work asked for: what rounding up to whole tiles and whole waves costs,
// at best.
double quantisation(double m, double n, double count, double multiprocessors) {
  double best = 0;
  for (const Tile& tile : kTiles) {
    const double tiles = std::ceil(m / tile.m) * std::ceil(n / tile.n) * count;
    const double waves = tiles / multiprocessors;
    const double lost = 1.0 + kWaveLoss * (std::ceil(waves) / waves - 1.0);
    const double padded = tiles * tile.m * tile.n / (m * n * count);
    const double cost = padded * lost / tile.rate;
    best = best == 0 ? cost : std::min(best, cost);
  }
  return best;
}

// Results of rows, gradients in fp32, and gradients added to what is there.
std::size_t grouped_table(const MatmulShape& shape) {
  constexpr double kFp32 = 4;
  return shape.result_bytes > kFp32 ? 2 : shape.weight_gradient ? 1 : 0;
}

struct Rows {
  std::int64_t bytes = 0;
  bool written = false;
};

// Share of the rate that is left by the alignment of rows.
double alignment_rate(const Rows& rows, std::int64_t widest, bool tensor_memory) {
  if (rows.bytes % 16 == 0) {
    return rows.bytes % widest != 0 ? kPartlyAlignedRate : 1.0;
  }
  if (!tensor_memory) {
    return kMisalignedRate;
  }
  const double odd = rows.written ? kOddWrittenRate : kOddReadRate;
  return rows.bytes % 4 == 0 ? kUndescribedRate : odd;
}

}  // namespace

OpCost::OpCost(const Cluster& cluster, const Profile& profile) {
  const GpuFit fit = fit_for(cluster.gpu, profile);
  for (std::size_t i = 0; i < peak_.size(); ++i) {
    peak_[i] = peak_of(cluster.gpu, static_cast<Precision>(i));
    table_of_[i] = matmul_table(fit, static_cast<Precision>(i));
  }
  matmul_efficiency_ = constant(fit, "matmul_efficiency");
  fp8_efficiency_ = constant(fit, "fp8_efficiency");
  half_k_ = constant(fit, "matmul_half_k");
  attention_efficiency_ = constant(fit, "attention_efficiency");
  portable_efficiency_ = constant(fit, "portable_attention_efficiency");
  memory_rate_ = cluster.gpu.memory_bandwidth.value * constant(fit, "memory_efficiency");
  kernel_seconds_ = constant(fit, "kernel_seconds");
  launch_seconds_ = constant(fit, "launch_seconds");
  multiprocessors_ = cluster.gpu.multiprocessors > 0 ? cluster.gpu.multiprocessors : 132;
  aligned_bytes_ = cluster.gpu.compute_capability >= 80 ? 128 : 64;
  tensor_memory_ = cluster.gpu.compute_capability >= 90;
  source_ = fit.source;
  add_matmul_anchors(fit);
  add_grouped_anchors(fit);
  add_attention_anchors(fit);
  for (const auto& [name, kernel] : fit.kernels) {
    own_kernels_[static_cast<std::size_t>(parse_kernel(name))] = kernel;
  }
  compute_correction_ = correction_of(profile, "compute");
}

void OpCost::add_matmul_anchors(const GpuFit& fit) {
  for (const MatmulPoint& point : fit.matmuls) {
    const MatmulShape shape{static_cast<std::int64_t>(point.m), static_cast<std::int64_t>(point.n),
                            static_cast<std::int64_t>(point.k), 1};
    const double measured = 2.0 * point.m * point.n * point.k / point.rate.value;
    const double modelled = model_matmul(shape, precision_of(point.precision));
    anchors_[static_cast<std::size_t>(point.precision)].push_back(
        {std::log(point.m), std::log(point.n), std::log(point.k), std::log(measured / modelled)});
  }
}

void OpCost::add_grouped_anchors(const GpuFit& fit) {
  for (const GroupedPoint& point : fit.grouped) {
    const auto whole = [](double value) { return static_cast<std::int64_t>(value); };
    const MatmulShape shape =
        grouped_shape({whole(point.m), whole(point.n), whole(point.k), whole(point.experts)},
                      point.layout == MatmulLayout::kWeightGradient, point.adds);
    const double measured = 2.0 * point.experts * point.m * point.n * point.k / point.rate.value;
    grouped_anchors_[grouped_table(shape)].push_back(
        {std::log(point.m), std::log(point.n), std::log(point.k),
         std::log(measured / model_grouped(shape, Precision::kBf16))});
  }
}

void OpCost::add_attention_anchors(const GpuFit& fit) {
  for (const AttentionPoint& point : fit.attention) {
    const AttentionShape shape{.batch = point.batch,
                               .heads = point.heads,
                               .kv_heads = point.kv_heads,
                               .query_length = point.sequence,
                               .key_length = point.sequence,
                               .qk_dim = point.head_size,
                               .v_dim = point.head_size,
                               .causal = true,
                               .flash = true,
                               .portable = point.portable};
    const auto ratio = [&](Seconds measured, Pass pass) {
      return measured.value > 0
                 ? std::log(measured.value / model_flash(shape, Precision::kBf16, pass))
                 : std::nan("");
    };
    attention_anchors_.push_back({std::log(static_cast<double>(point.sequence)),
                                  std::log(static_cast<double>(point.head_size)),
                                  std::log(static_cast<double>(point.batch * point.heads)),
                                  ratio(point.forward, Pass::kForward),
                                  ratio(point.backward, Pass::kBackward), point.portable});
  }
}

double OpCost::peak(Precision precision) const {
  return peak_[static_cast<std::size_t>(precision)];
}

FlopPerSecond OpCost::sustained(Precision precision) const {
  const bool narrow = precision == Precision::kFp8 || precision == Precision::kFp4;
  return FlopPerSecond(peak(precision) * (narrow ? fp8_efficiency_ : matmul_efficiency_));
}

BytesPerSecond OpCost::memory_rate() const {
  return BytesPerSecond(memory_rate_);
}

// Rounded up to tiles and waves, at the sustained rate, less the share of each tile's time that
// filling and draining the pipeline takes (half_k columns of K); never faster than its operands
// stream from memory. Tiles of a grouped product drain while what they add to is read and written
// (planner/cost/product_time.h).
double OpCost::model_matmul(const MatmulShape& shape, Precision precision) const {
  const auto m = static_cast<double>(shape.m);
  const auto n = static_cast<double>(shape.n);
  const auto k = static_cast<double>(shape.k);
  const auto count = static_cast<double>(shape.count);
  const double element = element_bytes(precision);
  double compute = 2.0 * m * n * k * count / sustained(precision).value;
  compute *= quantisation(m, n, count, multiprocessors_);
  const double written = count * m * n * shape.result_bytes / memory_rate_;
  const double drained = shape.count > 1 && shape.result_bytes > kNarrowResult ? written : 0;
  compute += std::max(0.0, compute * half_k_ / k - drained);
  const auto rate = [&](std::int64_t extent, bool is_written) {
    const auto bytes = static_cast<std::int64_t>(static_cast<double>(extent) * element);
    return alignment_rate({bytes, is_written}, aligned_bytes_, tensor_memory_);
  };
  double left = std::min(rate(shape.k, false), rate(shape.n, true));
  if (shape.weight_gradient) {
    // Its k is no row, but short of whole 128 bytes still fills its last tiles in part.
    const double filled = std::max(rate(shape.k, false), kPartlyAlignedRate);
    left = std::min({rate(shape.m, false), rate(shape.n, false), filled});
  }
  compute /= left;
  const double read = count * (m * k + k * n) * element / memory_rate_;
  return std::max(compute + written, read + written) + kernel_seconds_;
}

// As model_matmul, of the one tile that the runtime's own kernel has.
double OpCost::model_grouped(const MatmulShape& shape, Precision precision) const {
  const auto m = static_cast<double>(shape.m);
  const auto n = static_cast<double>(shape.n);
  const auto k = static_cast<double>(shape.k);
  const auto count = static_cast<double>(shape.count);
  const double compute =
      grouped_flop(shape, multiprocessors_) * (1.0 + half_k_ / k) / sustained(precision).value;
  const double written = count * m * n * shape.result_bytes / memory_rate_;
  const double read = count * (m + n) * k * element_bytes(precision) / memory_rate_;
  return std::max(compute, read) + written + kernel_seconds_;
}

// Measured over modelled time around this shape: a kernel average of the anchors in ln(m), ln(n),
// ln(k), drawn to 1 where none is near. Products m and n are interchangeable to a library, so the
// nearer order counts.
double OpCost::table_correction(const std::vector<Anchor>& anchors, const MatmulShape& shape) {
  const double log_m = std::log(static_cast<double>(shape.m));
  const double log_n = std::log(static_cast<double>(shape.n));
  const double log_k = std::log(static_cast<double>(shape.k));
  double weight_sum = 0.5;  // the model's own vote
  double sum = 0;
  for (const Anchor& anchor : anchors) {
    const double dk = (log_k - anchor.log_k) * (log_k - anchor.log_k);
    const double straight = (log_m - anchor.log_m) * (log_m - anchor.log_m) +
                            (log_n - anchor.log_n) * (log_n - anchor.log_n);
    const double swapped = (log_m - anchor.log_n) * (log_m - anchor.log_n) +
                           (log_n - anchor.log_m) * (log_n - anchor.log_m);
    const double distance = (std::min(straight, swapped) + dk) / (2 * kAnchorWidth * kAnchorWidth);
    if (distance < 8) {
      const double weight = std::exp(-distance);
      weight_sum += weight;
      sum += weight * anchor.log_ratio;
    }
  }
  return std::exp(sum / weight_sum);
}

Seconds OpCost::matmul(const MatmulShape& shape, Precision precision) const {
  if (shape.m <= 0 || shape.n <= 0 || shape.k <= 0 || shape.count <= 0) {
    return Seconds(0);
  }
  if (shape.grouped) {
    return Seconds(model_grouped(shape, precision) * compute_correction_ *
                   table_correction(grouped_anchors_[grouped_table(shape)], shape));
  }
  double seconds = model_matmul(shape, precision) * compute_correction_;
  const auto& table = table_of_[static_cast<std::size_t>(precision)];
  if (table && shape.count == 1) {
    seconds *= table_correction(anchors_[static_cast<std::size_t>(*table)], shape);
  }
  return Seconds(seconds);
}

// Time of one tile on one multiprocessor, times the tiles that pass until the last block is done:
// few heads leave multiprocessors idle, and none is done before its longest block.
double OpCost::model_flash(const AttentionShape& shape, Precision precision, Pass pass) const {
  const auto dims = static_cast<double>(shape.qk_dim + shape.v_dim);
  double rate = peak(precision) * (shape.portable ? portable_efficiency_ : attention_efficiency_);
  // Small heads leave the softmax exposed.
  rate *= dims / (dims + 48.0) * (256.0 + 48.0) / 256.0;
  const double tile = 2.0 * kTileRows * kTileRows * dims * multiprocessors_ / rate;
  const AttentionBlocks blocks{.rows = shape.batch * shape.heads,
                               .queries = shape.query_length,
                               .keys = shape.key_length,
                               .causal = shape.causal};
  const double forward = tile * tiles_until_done(blocks, multiprocessors_);
  if (pass == Pass::kForward) {
    return forward + kernel_seconds_;
  }
  // Backward repeats the scores: five products of the forward's two.
  const double elements = static_cast<double>(blocks.rows * blocks.queries * shape.v_dim);
  return forward * 2.5 / kBackwardRate + kBackwardBytes * elements / memory_rate_ +
         3 * kernel_seconds_;
}

// As table_correction, over ln(keys), ln(head size) and ln(batch x heads). Rates change slowly with
// the number of rows, so a point speaks for its neighbours over twice the width; head sizes have
// kernels of their own, and the points of one say little of the next.
double OpCost::attention_correction(const AttentionShape& shape, Pass pass) const {
  const double log_sequence = std::log(static_cast<double>(shape.key_length));
  const double log_head_size = std::log(0.5 * static_cast<double>(shape.qk_dim + shape.v_dim));
  const double log_rows = std::log(static_cast<double>(shape.batch * shape.heads));
  double weight_sum = 0.2;
  double sum = 0;
  for (const AttentionAnchor& anchor : attention_anchors_) {
    const double ratio = pass == Pass::kForward ? anchor.log_forward : anchor.log_backward;
    if (anchor.portable != shape.portable || std::isnan(ratio)) {
      continue;
    }
    const double ds = log_sequence - anchor.log_sequence;
    const double dh = log_head_size - anchor.log_head_size;
    const double dr = log_rows - anchor.log_rows;
    const double rows_width = 2 * kAnchorWidth;
    const double distance = (ds * ds + dh * dh) / (2 * kAnchorWidth * kAnchorWidth) +
                            dr * dr / (2 * rows_width * rows_width);
    const double weight = std::exp(-distance);
    weight_sum += weight;
    sum += weight * ratio;
  }
  return std::exp(sum / weight_sum);
}

Seconds OpCost::attention(const AttentionShape& shape, Precision precision, Pass pass) const {
  if (shape.batch <= 0 || shape.heads <= 0 || shape.query_length <= 0 || shape.key_length <= 0 ||
      shape.qk_dim + shape.v_dim <= 0) {
    return Seconds(0);
  }
  // Scores stay in 16 bit even where the products of the layer are narrower.
  const bool narrow = precision == Precision::kFp8 || precision == Precision::kFp4;
  const Precision used = narrow ? Precision::kBf16 : precision;
  if (shape.flash) {
    double seconds = model_flash(shape, used, pass) * compute_correction_;
    if (!attention_anchors_.empty() && shape.causal) {
      seconds *= attention_correction(shape, pass);
    }
    return Seconds(seconds);
  }
  const MatmulShape scores{shape.query_length, shape.key_length, shape.qk_dim,
                           shape.batch * shape.heads};
  const MatmulShape values{shape.query_length, shape.v_dim, shape.key_length,
                           shape.batch * shape.heads};
  const double products = pass == Pass::kForward ? 1.0 : 2.0;
  return Seconds(products * (model_matmul(scores, used) + model_matmul(values, used)) *
                 compute_correction_);
}

Seconds OpCost::memory_bound(Bytes traffic, int kernels) const {
  return Seconds((static_cast<double>(traffic.value) / memory_rate_ + kernels * kernel_seconds_) *
                 compute_correction_);
}

std::optional<Seconds> OpCost::own_kernel(Kernel kernel, Bytes traffic, int kernels) const {
  std::optional<KernelFit> fit = own_kernels_[static_cast<std::size_t>(kernel)];
  if (!fit) {
    fit = own_kernels_[static_cast<std::size_t>(measured_as(kernel))];
  }
  if (!fit) {
    return std::nullopt;
  }
  const double fixed = kernels > 0 ? fit->fixed.value + (kernels - 1) * kernel_seconds_ : 0.0;
  return Seconds((fixed + static_cast<double>(traffic.value) / fit->rate.value) *
                 compute_correction_);
}

Seconds OpCost::launch(int kernels) const {
  return Seconds(kernels * launch_seconds_);
}

}  // namespace trireme::topologies
