#include "launcherd/output/torch_log_sinks.h"

#include <fcntl.h>

#include <cerrno>
#include <utility>

#include "launcherd/output/rank_folder.h"

namespace muster::launcherd::inline output {
namespace {

constexpr std::array kTorchStreams = {proto::OutputStream::kStdout, proto::OutputStream::kStderr};

}  // namespace

base::Result<std::unique_ptr<TorchLogSink>> TorchLogSink::create(TorchLogs* logs, Selects selects) {
  std::unique_ptr<TorchLogSink> sink(new TorchLogSink(logs, std::move(selects)));
  MUSTER_RETURN_IF_ERROR(sink->open_files());
  return sink;
}

base::Status TorchLogSink::open_files() {
  opened_ = logs_->generation();
  files_.clear();
  for (const int rank : logs_->ranks()) {
    const std::string folder = logs_->rank_folder(rank);
    for (const proto::OutputStream stream : kTorchStreams) {
      if (!selects_(logs_->local_rank(rank), stream)) continue;
      const bool is_stdout = stream == proto::OutputStream::kStdout;
      File& file = files_[rank][is_stdout ? 0 : 1];
      file.path = folder + (is_stdout ? "/stdout.log" : "/stderr.log");
      file.fd.reset(::open(file.path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666));
      if (!file.fd.valid()) return file_error("open", file.path, errno);
    }
  }
  return base::ok_status();
}

void TorchLogSink::begin_attempt(int attempt) {
  if (attempt == opened_) return;
  problem_ = logs_->begin(attempt);
  if (problem_.ok()) problem_ = open_files();
}

base::Status TorchLogSink::write(int rank, proto::OutputStream stream, std::string_view bytes, std::uint8_t) {
  if (!problem_.ok()) return std::exchange(problem_, base::ok_status());
  const auto found = files_.find(rank);
  if (found == files_.end()) return base::ok_status();
  File& file = found->second[stream == proto::OutputStream::kStdout ? 0 : 1];
  if (!file.fd.valid()) return base::ok_status();
  const base::Status written = base::write_all_blocking(file.fd.get(), bytes.data(), bytes.size());
  if (written.ok()) return written;
  file.fd.reset();
  return base::error(written.code(), "--log-dir: {}: {}", file.path, written.message());
}

base::Result<std::unique_ptr<TorchFilterSink>> TorchFilterSink::create(TorchLogs* logs, FilterSink::Words words,
                                                                       const base::Clock* clock,
                                                                       const model::LabelFormat& label) {
  std::unique_ptr<TorchFilterSink> sink(new TorchFilterSink(logs, std::move(words), clock, label));
  MUSTER_RETURN_IF_ERROR(sink->open_files());
  return sink;
}

base::Status TorchFilterSink::open_files() {
  opened_ = logs_->generation();
  by_rank_.clear();
  by_folder_.clear();
  for (const int rank : logs_->ranks()) {
    const std::string folder = logs_->generation_folder(rank);
    std::unique_ptr<FilterSink>& sink = by_folder_[folder];
    if (sink == nullptr) {
      MUSTER_ASSIGN_OR_RETURN(sink, FilterSink::create(folder, words_, clock_, label_));
    }
    by_rank_[rank] = sink.get();
  }
  return base::ok_status();
}

void TorchFilterSink::begin_attempt(int attempt) {
  if (attempt == opened_) return;
  problem_ = logs_->begin(attempt);
  if (problem_.ok()) problem_ = open_files();
}

base::Status TorchFilterSink::write(int rank, proto::OutputStream stream, std::string_view bytes, std::uint8_t flags) {
  if (!problem_.ok()) return std::exchange(problem_, base::ok_status());
  const auto found = by_rank_.find(rank);
  return found == by_rank_.end() ? base::ok_status() : found->second->write(rank, stream, bytes, flags);
}

base::Status TorchFilterSink::end_rank(int rank) {
  const auto found = by_rank_.find(rank);
  return found == by_rank_.end() ? base::ok_status() : found->second->end_rank(rank);
}

}  // namespace muster::launcherd::output
