// The sinks of hvdrun's output options: a labelled console, files per rank, both at once, and a choice of streams.
#pragma once

#include <array>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/status.h"
#include "base/unique_fd.h"
#include "launcherd/output/forwarding_sink.h"
#include "launcherd/output/terminal.h"
#include "model/label_format.h"

namespace muster::launcherd::inline output {

struct ConsoleSinkOptions {
  int size = 1;  // number of ranks of the job
  // The rank whose bytes go to stdout unchanged and without labels. -1 means none.
  int raw_rank = -1;
  model::LabelFormat label{};  // times look like `Sat Jun 20 17:05:53 2026`
};

// Writes `[rank]<stdout>:line` to one terminal and `[rank]<stderr>:line` to the other. The options may set another
// label. Lines stay whole. The sink buffers 256 KiB.
class ConsoleSink final : public OutputSink {
 public:
  // The terminals must outlive the sink; the NoticeWriter shares them. `err` may be the same object as `out`.
  ConsoleSink(Terminal* out, Terminal* err, const base::Clock* clock, ConsoleSinkOptions options);
  ~ConsoleSink() override;

  base::Status write(int rank, proto::OutputStream stream, std::string_view bytes, std::uint8_t flags) override;
  base::Status end_rank(int rank) override;
  base::Status flush() override;

  // Writes bytes of a rank that arrived at `stamp`.
  base::Status write_at(int rank, proto::OutputStream stream, std::string_view bytes, base::WallTime stamp);
  // Writes whole lines of several ranks. `ranks` is the text for the label, as "0-3,7".
  base::Status write_lines(std::string_view ranks, proto::OutputStream stream, std::string_view lines,
                           base::WallTime stamp);

 private:
  class Outlet;
  Outlet& outlet(proto::OutputStream stream);

  Terminal* const out_;
  const base::Clock* const clock_;
  const int raw_rank_;
  std::array<std::unique_ptr<Outlet>, 2> outlets_;  // the second one is empty if both streams go to one terminal
};

// Writes the exact bytes to directory/rank.NN/{stdout,stderr}. NN has as many digits as the highest rank. The folder of
// a single rank is rank.0.
class FileSink final : public OutputSink {
 public:
  // Creates the directories and truncates the files. The error names the path that failed. Files of spawned ranks
  // (`size` and above) are created when their first bytes arrive.
  static base::Result<std::unique_ptr<FileSink>> create(const std::string& directory, int size);

  base::Status write(int rank, proto::OutputStream stream, std::string_view bytes, std::uint8_t flags) override;
  base::Status end_rank(int rank) override;
  base::Status flush() override;

 private:
  struct File {
    base::UniqueFd fd;
    std::string path;
  };
  FileSink(std::string directory, int size) : directory_(std::move(directory)), size_(size) {}
  base::Status open_rank(int rank);

  const std::string directory_;
  const int size_;
  std::map<int, std::array<File, 2>> files_;  // by rank
};

// Writes to both sinks. If one fails, the other still gets the bytes. Owns neither.
class TeeSink final : public OutputSink {
 public:
  TeeSink(OutputSink* first, OutputSink* second) : first_(first), second_(second) {}

  base::Status write(int rank, proto::OutputStream stream, std::string_view bytes, std::uint8_t flags) override;
  base::Status end_rank(int rank) override;
  base::Status flush() override;
  void begin_attempt(int attempt) override;
  void frame(int agent, std::uint64_t sequence) override;
  base::Status end_agent(int agent) override;
  base::Status finish() override;

 private:
  OutputSink* first_;
  OutputSink* second_;
};

// Passes on only the chosen streams of each rank, and all streams of ranks beyond the list. Does not own `next`.
class SelectSink final : public ForwardingSink {
 public:
  struct Streams {
    bool out = true;
    bool err = true;
  };
  SelectSink(OutputSink* next, std::vector<Streams> by_rank) : ForwardingSink(next), by_rank_(std::move(by_rank)) {}

  // Call it between two generations of a job, when nothing is written.
  void set_streams(std::vector<Streams> by_rank) { by_rank_ = std::move(by_rank); }

  base::Status write(int rank, proto::OutputStream stream, std::string_view bytes, std::uint8_t flags) override;

 private:
  std::vector<Streams> by_rank_;
};

}  // namespace muster::launcherd::output
