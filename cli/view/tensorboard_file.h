// A file of scalars and texts over time that TensorBoard shows (proto/wire/tensorboard.proto).
//
// The file is events.out.tfevents.SECONDS.HOST.PID.muster in a folder that TensorBoard reads. It is a sequence of
// TFRecords: the length of the data (8 bytes), the masked CRC-32C of these bytes (4), the data, and the masked CRC-32C
// of the data (4), all little-endian.
//
// Thread: one at a time. Writes block as long as the file system takes, so use few and small ones.
// Errors: after one, the file takes nothing more. What was written before stays readable.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "base/clock.h"
#include "base/status.h"
#include "base/unique_fd.h"

namespace muster::cli::inline view {

// A number, or a text in UTF-8.
struct TensorboardValue {
  std::string tag;  // "group/name"
  std::variant<double, std::string> value;
};

// Returns the TFRecord that holds these bytes. Pure.
std::string tfrecord(std::string_view data);

// Returns the TFRecord of one event. TensorBoard draws the values over `step` or over `time`. Pure.
std::string tensorboard_record(base::WallTime time, std::int64_t step, const std::vector<TensorboardValue>& values);

class TensorboardFile {
 public:
  // Makes the folder, if it is missing, with its parents, and the file, and writes the first record. `option` begins
  // the messages of all errors.
  static base::Result<std::unique_ptr<TensorboardFile>> create(const std::string& option, const std::string& folder,
                                                               base::WallTime now);

  // Writes one event at once. Does nothing without values, and after an error.
  base::Status write(base::WallTime time, std::int64_t step, const std::vector<TensorboardValue>& values);

  const std::string& path() const { return path_; }

 private:
  TensorboardFile(std::string option, std::string path, base::UniqueFd fd)
      : option_(std::move(option)), path_(std::move(path)), fd_(std::move(fd)) {}
  base::Status append(const std::string& bytes);

  const std::string option_;
  const std::string path_;
  base::UniqueFd fd_;  // invalid after an error
};

}  // namespace muster::cli::view
