#include "launcherd/output/filter_sink.h"

#include <fcntl.h>

#include <algorithm>
#include <cerrno>

#include "launcherd/output/rank_folder.h"

namespace muster::launcherd::inline output {
namespace {

constexpr std::size_t kLongestLine = 64 * 1024;

std::size_t index_of(proto::OutputStream stream) {
  return stream == proto::OutputStream::kStdout ? 0 : 1;
}

}  // namespace

base::Result<std::unique_ptr<FilterSink>> FilterSink::create(const std::string& directory, Words words,
                                                             const base::Clock* clock,
                                                             const model::LabelFormat& label) {
  MUSTER_RETURN_IF_ERROR(make_directories(directory));
  std::unique_ptr<FilterSink> sink(new FilterSink(clock, label));
  for (std::size_t i = 0; i < words.size(); ++i) {
    if (words[i].empty()) continue;
    File& file = sink->files_[i];
    file.words = std::move(words[i]);
    file.path = directory + (i == 0 ? "/filtered_stdout.log" : "/filtered_stderr.log");
    file.fd.reset(::open(file.path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666));
    if (!file.fd.valid()) return file_error("open", file.path, errno);
  }
  return sink;
}

base::Status FilterSink::write(int rank, proto::OutputStream stream, std::string_view bytes, std::uint8_t) {
  if (!files_[index_of(stream)].fd.valid()) return base::ok_status();
  std::string& line = open_lines_[{rank, stream}];
  base::Status status = base::ok_status();
  while (!bytes.empty() && status.ok()) {
    const std::size_t end = bytes.find('\n');
    const std::size_t wanted = end == std::string_view::npos ? bytes.size() : end + 1;
    const std::size_t size = std::min(wanted, kLongestLine - line.size());
    line.append(bytes.substr(0, size));
    bytes.remove_prefix(size);
    if (line.back() == '\n' || line.size() == kLongestLine) status = end_line(rank, stream, line);
  }
  return status;
}

base::Status FilterSink::end_rank(int rank) {
  base::Status status = base::ok_status();
  for (const proto::OutputStream stream : {proto::OutputStream::kStdout, proto::OutputStream::kStderr}) {
    const auto open = open_lines_.extract({rank, stream});
    if (open.empty() || open.mapped().empty()) continue;
    base::Status ended = end_line(rank, stream, open.mapped());
    if (status.ok()) status = std::move(ended);
  }
  return status;
}

base::Status FilterSink::end_line(int rank, proto::OutputStream stream, std::string& line) {
  const std::string text = std::exchange(line, {});
  File& file = files_[index_of(stream)];
  const auto has = [&](const std::string& word) { return text.find(word) != std::string::npos; };
  if (!file.fd.valid() || std::ranges::none_of(file.words, has)) return base::ok_status();
  const base::WallTime now = labeler_.has_time() ? clock_->wall() : base::WallTime{};
  labelled_.clear();
  std::string_view left = text;
  while (!left.empty()) left.remove_prefix(labeler_.append(rank, stream, left, now, 2 * kLongestLine, &labelled_));
  labeler_.end(rank, stream, &labelled_);
  const std::string_view whole = labelled_.view();
  const base::Status written = base::write_all_blocking(file.fd.get(), whole.data(), whole.size());
  if (written.ok()) return written;
  file.fd.reset();
  return base::error(written.code(), "--duplicate-{}-filters: {}: {}", index_of(stream) == 0 ? "stdout" : "stderr",
                     file.path, written.message());
}

}  // namespace muster::launcherd::output
