#include "planner/plan/offload.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <sstream>

#include "core/error.h"

namespace trireme::planner {

namespace {

constexpr const char* kRight =
    "optimizer, gradients, parameters or activations, with =host, =nvme or =SHARE, would be right";

struct Place {
  OffloadTo to = OffloadTo::kHost;
  double share = 1;
};

Place parse_place(const std::string& part, const std::string& value, bool shares) {
  if (value == "host" || value == "cpu") {
    return {};
  }
  if (value == "nvme") {
    return {.to = OffloadTo::kNvme};
  }
  Place place;
  const char* end = value.data() + value.size();
  const auto [stop, failure] = std::from_chars(value.data(), end, place.share);
  if (!shares || failure != std::errc() || stop != end || !(place.share > 0) || place.share > 1) {
    throw Error("--offload", fmt::format("'{}' is wrong; {}", part, kRight));
  }
  return place;
}

std::string text_of(const char* name, OffloadTo to, double share) {
  if (to == OffloadTo::kNone) {
    return "";
  }
  const std::string value = to == OffloadTo::kNvme ? "=nvme"
                            : share < 1            ? fmt::format("={:g}", share)
                                                   : "";
  return fmt::format("{}{},", name, value);
}

}  // namespace

Offload parse_offload(const std::string& text) {
  Offload offload;
  std::istringstream parts(text);
  std::vector<std::string> names;
  for (std::string part; std::getline(parts, part, ',');) {
    const auto cut = part.find('=');
    const std::string name = part.substr(0, cut);
    const std::string value = cut == std::string::npos ? "host" : part.substr(cut + 1);
    if (std::find(names.begin(), names.end(), name) != names.end()) {
      throw Error("--offload", fmt::format("'{}' says {} a second time; one of them would be right",
                                           part, name));
    }
    names.push_back(name);
    if (name == "optimizer") {
      const Place place = parse_place(part, value, true);
      offload.optimizer = place.to;
      offload.optimizer_share = place.share;
    } else if (name == "gradients") {
      offload.gradients = parse_place(part, value, false).to;
    } else if (name == "parameters") {
      offload.parameters = parse_place(part, value, false).to;
    } else if (name == "activations") {
      const Place place = parse_place(part, value, true);
      offload.activations = place.to;
      offload.activation_share = place.share;
    } else {
      throw Error("--offload", fmt::format("'{}' is wrong; {}", part, kRight));
    }
  }
  return offload;
}

std::string to_text(const Offload& offload) {
  std::string text = text_of("optimizer", offload.optimizer, offload.optimizer_share) +
                     text_of("gradients", offload.gradients, 1) +
                     text_of("parameters", offload.parameters, 1) +
                     text_of("activations", offload.activations, offload.activation_share);
  if (!text.empty()) {
    text.pop_back();
  }
  return text;
}

}  // namespace trireme::planner
