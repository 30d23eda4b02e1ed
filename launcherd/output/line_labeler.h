// LineLabeler puts the label of its rank before every line of output. It is the pure core of the console.
// Thread: only the thread that writes the console owns and calls it.
//
// A line ends with '\n', '\r' or "\r\n". An unfinished line stays open. If the same stream continues next, its text
// follows without a label. If another stream comes first, '\n' closes the open line, and the rest of the first line
// gets a new label. So no line mixes text of two streams.
#pragma once

#include <cstdint>
#include <ctime>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "base/clock.h"
#include "launcherd/output/terminal.h"
#include "model/label_format.h"
#include "proto/output_frame.h"

namespace muster::launcherd::inline output {

// A buffer that grows without initialising its bytes. clear() keeps the memory for the next use, up to a bound.
class TextBuffer {
 public:
  void append(std::string_view text);
  void append(char byte) { append(std::string_view(&byte, 1)); }
  // Returns room for `size` bytes at the end. add() makes some of them part of the text.
  char* room(std::size_t size);
  void add(std::size_t size) { size_ += size; }
  void clear();
  std::string_view view() const { return {bytes_.get(), size_}; }
  std::size_t size() const { return size_; }

 private:
  std::unique_ptr<char[]> bytes_;
  std::size_t size_ = 0;
  std::size_t capacity_ = 0;
};

class LineLabeler {
 public:
  explicit LineLabeler(model::LabelFormat format) : format_(std::move(format)), has_time_(format_.has_time()) {}

  // True if append() uses `now`.
  bool has_time() const { return has_time_; }

  // Labels lines of `bytes` into `out`. Stops if all bytes are used, or if `out` holds `enough` bytes and the line is
  // complete. Returns the number of bytes used.
  std::size_t append(int rank, proto::OutputStream stream, std::string_view bytes, base::WallTime now,
                     std::size_t enough, TextBuffer* out);

  // Labels whole lines of several ranks into `out`. `ranks` is the text for the label, as "0-3,7".
  void append_lines(std::string_view ranks, proto::OutputStream stream, std::string_view lines, base::WallTime now,
                    TextBuffer* out);

  // Ends the stream: closes its line if that line is open.
  void end(int rank, proto::OutputStream stream, TextBuffer* out);

  // Returns how the labelled text joins the text before it. Valid if `out` was empty before append().
  Join join() const { return join_; }

  // Returns the label of the open line, in case the caller must write it again. Empty at the start of a line.
  const std::string& open_label() const { return open_label_; }

 private:
  struct Source {
    int rank;
    proto::OutputStream stream;
    bool operator==(const Source&) const = default;
  };
  std::string new_label(std::string_view ranks, proto::OutputStream stream, std::time_t second) const;
  void make_label(Source source, base::WallTime now);

  const model::LabelFormat format_;
  const bool has_time_;
  std::optional<Source> open_;  // the stream whose text may continue without a label
  // True if '\r' ended the line of open_. Only a '\n' may still belong to that line.
  bool is_after_bar_ = false;
  std::string open_label_;
  Join join_ = Join::kFresh;
  std::string label_;  // the label of label_source_ at label_second_
  std::optional<Source> label_source_;
  std::time_t label_second_ = 0;
};

}  // namespace muster::launcherd::output
