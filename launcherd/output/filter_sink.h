// Lines that have one of some words, of all ranks in one file for each stream: torchrun's --duplicate-stdout-filters
// and
// --duplicate-stderr-filters.
//
// Each line is written whole, with the label that it has on the console. A line of more than 64 KiB is looked through
// and written in pieces of that size. Owned by the thread of the sink (output_sink.h), and the errors are as there.
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
  using Words = std::array<std::vector<std::string>, 2>;  // of stdout and stderr; a stream without words has no file

  // Makes or truncates directory/filtered_stdout.log and directory/filtered_stderr.log. `clock` is borrowed.
  static base::Result<std::unique_ptr<FilterSink>> create(const std::string& directory, Words words,
                                                          const base::Clock* clock, const model::LabelFormat& label);

  base::Status write(int rank, proto::OutputStream stream, std::string_view bytes, std::uint8_t flags) override;
  base::Status end_rank(int rank) override;
  base::Status flush() override { return base::ok_status(); }

 private:
  struct File {
    base::UniqueFd fd;  // invalid: no words, or a write has failed
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
