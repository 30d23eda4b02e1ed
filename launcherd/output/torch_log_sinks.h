// The sinks of `--log-layout torchrun`: stdout.log and stderr.log of each rank, and the filtered lines of each host.
// They begin new files in every generation (OutputSink::begin_attempt). Output of spawned ranks goes to no file.
// Owner, thread and errors: as in output_sink.h. A generation whose files cannot be made reports that at its next
// write.
#pragma once

#include <array>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/status.h"
#include "base/unique_fd.h"
#include "launcherd/output/filter_sink.h"
#include "launcherd/output/output_sink.h"
#include "launcherd/output/torch_logs.h"
#include "model/label_format.h"

namespace muster::launcherd::inline output {

// Writes the exact bytes. A stream that is not selected has no file, as with torchrun.
class TorchLogSink final : public OutputSink {
 public:
  // Returns whether a stream goes to a file.
  using Selects = std::function<bool(int local_rank, proto::OutputStream stream)>;

  // Creates the files of the current generation. `logs` is borrowed.
  static base::Result<std::unique_ptr<TorchLogSink>> create(TorchLogs* logs, Selects selects);

  base::Status write(int rank, proto::OutputStream stream, std::string_view bytes, std::uint8_t flags) override;
  base::Status end_rank(int) override { return base::ok_status(); }
  void begin_attempt(int attempt) override;
  base::Status flush() override { return base::ok_status(); }

 private:
  struct File {
    base::UniqueFd fd;  // invalid if the stream has no file, or after a failed write
    std::string path;
  };
  TorchLogSink(TorchLogs* logs, Selects selects) : logs_(logs), selects_(std::move(selects)) {}
  base::Status open_files();

  TorchLogs* const logs_;
  const Selects selects_;
  int opened_ = -1;  // the generation of the files
  base::Status problem_ = base::ok_status();
  std::map<int, std::array<File, 2>> files_;  // by rank
};

// Writes filtered_stdout.log and filtered_stderr.log into the folder of the generation on each host.
class TorchFilterSink final : public OutputSink {
 public:
  // Creates the files of the current generation. `logs` and `clock` are borrowed.
  static base::Result<std::unique_ptr<TorchFilterSink>> create(TorchLogs* logs, FilterSink::Words words,
                                                               const base::Clock* clock,
                                                               const model::LabelFormat& label);

  base::Status write(int rank, proto::OutputStream stream, std::string_view bytes, std::uint8_t flags) override;
  base::Status end_rank(int rank) override;
  void begin_attempt(int attempt) override;
  base::Status flush() override { return base::ok_status(); }

 private:
  TorchFilterSink(TorchLogs* logs, FilterSink::Words words, const base::Clock* clock, const model::LabelFormat& label)
      : logs_(logs), words_(std::move(words)), clock_(clock), label_(label) {}
  base::Status open_files();

  TorchLogs* const logs_;
  const FilterSink::Words words_;
  const base::Clock* const clock_;
  const model::LabelFormat label_;
  int opened_ = -1;  // the generation of the files
  base::Status problem_ = base::ok_status();
  std::map<std::string, std::unique_ptr<FilterSink>> by_folder_;
  std::map<int, FilterSink*> by_rank_;
};

}  // namespace muster::launcherd::output
