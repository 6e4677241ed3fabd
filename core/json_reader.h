// Strict reading of JSON input: every problem is an Error that names the file and the JSON pointer,
// and every key that nobody asked for is an error too, so that a misspelt key never passes in
// silence.
#pragma once

#include <cstdint>
#include <limits>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "core/units.h"

namespace trireme {

// Reads and parses a whole file. Throws Error: missing, unreadable, a folder or a device, empty,
// not JSON, a key twice in one object (with the line), or lists and objects more than 200 deep.
nlohmann::json read_json_file(const std::string& path);
// Parses text that came from `name`. Throws Error as above.
nlohmann::json parse_json(std::string_view text, const std::string& name);

// One JSON object being read. `json` must outlive the reader.
class JsonReader {
 public:
  // Throws Error when `json` is not an object. `where` is the file and pointer so far, e.g.
  // "c.json#/fabric".
  JsonReader(const nlohmann::json& json, std::string where);

  [[nodiscard]] bool has(const std::string& key) const;  // present and not null
  // Required values; Error when missing or of another type or out of range.
  std::string text(const std::string& key);
  // Exact over all 64 bits.
  std::int64_t integer(const std::string& key,
                       std::int64_t low = std::numeric_limits<std::int64_t>::min(),
                       std::int64_t high = std::numeric_limits<std::int64_t>::max());
  double number(const std::string& key, double low = -std::numeric_limits<double>::infinity(),
                double high = std::numeric_limits<double>::infinity());
  bool boolean(const std::string& key);
  Bytes bytes(const std::string& key);                // "80 GiB"
  BytesPerSecond bandwidth(const std::string& key);   // "450 GB/s"
  Seconds duration(const std::string& key);           // "1.2 us"
  FlopPerSecond flop_rate(const std::string& key);    // "989 TFLOP/s"
  const nlohmann::json& raw(const std::string& key);  // any type
  JsonReader object(const std::string& key);
  std::vector<JsonReader> objects(const std::string& key);  // an array of objects
  // Accepts `key` without reading it (comments, sources).
  void ignore(const std::string& key);
  // Call when done: Error on a key that nobody read, with the keys that exist.
  void finish() const;

  [[nodiscard]] std::string where(const std::string& key) const;  // file#/pointer/key
  [[noreturn]] void fail(const std::string& key, const std::string& what) const;

 private:
  const nlohmann::json& require(const std::string& key);

  const nlohmann::json* json_;
  std::string where_;
  std::set<std::string> seen_;
};

}  // namespace trireme
