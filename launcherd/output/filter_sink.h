// FilterSink copies lines that contain one of the given words to a file. Each stream has one file for all ranks. It
// implements torchrun's --duplicate-stdout-filters and --duplicate-stderr-filters.
//
// It writes each line whole, with the label that the line has on the console. It searches and writes a line of more
// than 64 KiB in pieces of that size.
// Owner, thread and errors: as in output_sink.h.
#pragma once

#include <array>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/status.h"
#include "base/unique_fd.h"
#include "launcherd/output/line_labeler.h"
#include "launcherd/output/output_sink.h"
#include "model/label_format.h"

namespace muster::launcherd::inline output {

class FilterSink final : public OutputSink {
 public:
  // The words for stdout and for stderr. A stream without words has no file.
  using Words = std::array<std::vector<std::string>, 2>;

  // Creates or truncates directory/filtered_stdout.log and directory/filtered_stderr.log. `clock` is borrowed.
  static base::Result<std::unique_ptr<FilterSink>> create(const std::string& directory, Words words,
                                                          const base::Clock* clock, const model::LabelFormat& label);

  base::Status write(int rank, proto::OutputStream stream, std::string_view bytes, std::uint8_t flags) override;
  base::Status end_rank(int rank) override;
  base::Status flush() override { return base::ok_status(); }

 private:
  struct File {
    base::UniqueFd fd;  // invalid if the stream has no words, or after a failed write
    std::string path;
    std::vector<std::string> words;
  };
  FilterSink(const base::Clock* clock, const model::LabelFormat& label) : clock_(clock), labeler_(label) {}
  base::Status end_line(int rank, proto::OutputStream stream, std::string& line);

  const base::Clock* const clock_;
  LineLabeler labeler_;
  TextBuffer labelled_;
  std::array<File, 2> files_;
  std::map<std::pair<int, proto::OutputStream>, std::string> open_lines_;
};

}  // namespace muster::launcherd::output
