// ConsoleSink, FileSink, TeeSink and SelectSink, in this order. Each stands alone.
// Read ConsoleSink::Outlet first: it labels lines and buffers them.
#include "launcherd/output/sinks.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "launcherd/output/line_labeler.h"
#include "launcherd/output/rank_folder.h"

namespace muster::launcherd::inline output {
namespace {

constexpr std::size_t kBufferSize = 256 * 1024;

base::Status first_of(base::Status first, base::Status second) {
  return first.ok() ? second : first;
}

// Returns 0, or the errno because of which some bytes were not written.
int write_all(int fd, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t size = ::write(fd, bytes.data(), bytes.size());
    if (size < 0 && errno != EINTR) return errno;
    if (size > 0) bytes.remove_prefix(static_cast<std::size_t>(size));
  }
  return 0;
}

}  // namespace

// Labelled text that is buffered for one terminal.
class ConsoleSink::Outlet {
 public:
  Outlet(Terminal* terminal, const model::LabelFormat& label) : terminal_(terminal), labeler_(label) {}

  bool has_time() const { return labeler_.has_time(); }

  base::Status write(int rank, proto::OutputStream stream, std::string_view bytes, base::WallTime now) {
    while (!bytes.empty()) {
      bytes.remove_prefix(labeler_.append(rank, stream, bytes, now, kBufferSize, &buffer_));
      if (buffer_.size() >= kBufferSize) MUSTER_RETURN_IF_ERROR(flush());
    }
    return base::ok_status();
  }

  base::Status write_lines(std::string_view ranks, proto::OutputStream stream, std::string_view lines,
                           base::WallTime now) {
    labeler_.append_lines(ranks, stream, lines, now, &buffer_);
    return buffer_.size() >= kBufferSize ? flush() : base::ok_status();
  }

  void end(int rank, proto::OutputStream stream) { labeler_.end(rank, stream, &buffer_); }

  base::Status flush() {
    if (buffer_.size() == 0) return base::ok_status();
    const base::Status status = terminal_->write_output(buffer_.view(), labeler_.join(), open_label_);
    buffer_.clear();
    open_label_ = labeler_.open_label();
    return status;
  }

 private:
  Terminal* const terminal_;
  LineLabeler labeler_;
  TextBuffer buffer_;
  std::string open_label_;  // the label of the line that was open at the last write of the buffer
};

ConsoleSink::ConsoleSink(Terminal* out, Terminal* err, const base::Clock* clock, ConsoleSinkOptions options)
    : out_(out), clock_(clock), raw_rank_(options.raw_rank) {
  outlets_[0] = std::make_unique<Outlet>(out, options.label);
  if (err != out) outlets_[1] = std::make_unique<Outlet>(err, options.label);
}

ConsoleSink::~ConsoleSink() = default;

ConsoleSink::Outlet& ConsoleSink::outlet(proto::OutputStream stream) {
  return stream == proto::OutputStream::kStderr && outlets_[1] ? *outlets_[1] : *outlets_[0];
}

base::Status ConsoleSink::write(int rank, proto::OutputStream stream, std::string_view bytes, std::uint8_t) {
  return write_at(rank, stream, bytes, outlet(stream).has_time() ? clock_->wall() : base::WallTime{});
}

base::Status ConsoleSink::write_at(int rank, proto::OutputStream stream, std::string_view bytes, base::WallTime stamp) {
  if (rank != raw_rank_) return outlet(stream).write(rank, stream, bytes, stamp);
  MUSTER_RETURN_IF_ERROR(flush());  // write the earlier output of other ranks first
  return out_->write_bytes(bytes);
}

base::Status ConsoleSink::write_lines(std::string_view ranks, proto::OutputStream stream, std::string_view lines,
                                      base::WallTime stamp) {
  return outlet(stream).write_lines(ranks, stream, lines, stamp);
}

base::Status ConsoleSink::end_rank(int rank) {
  for (const proto::OutputStream stream : {proto::OutputStream::kStdout, proto::OutputStream::kStderr}) {
    outlet(stream).end(rank, stream);
  }
  return base::ok_status();
}

base::Status ConsoleSink::flush() {
  base::Status status = outlets_[0]->flush();
  return outlets_[1] ? first_of(std::move(status), outlets_[1]->flush()) : status;
}

base::Result<std::unique_ptr<FileSink>> FileSink::create(const std::string& directory, int size) {
  MUSTER_RETURN_IF_ERROR(make_directories(directory));
  std::unique_ptr<FileSink> sink(new FileSink(directory, size));
  for (int rank = 0; rank < size; ++rank) MUSTER_RETURN_IF_ERROR(sink->open_rank(rank));
  return sink;
}

base::Status FileSink::open_rank(int rank) {
  const std::string folder = rank_directory(directory_, rank, size_);
  std::array<File, 2>& files = files_[rank];
  MUSTER_RETURN_IF_ERROR(make_directory(folder));
  files[0].path = folder + "/stdout";
  files[1].path = folder + "/stderr";
  for (File& file : files) {
    file.fd.reset(open(file.path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666));
    if (!file.fd.valid()) return file_error("open", file.path, errno);
  }
  return base::ok_status();
}

base::Status FileSink::write(int rank, proto::OutputStream stream, std::string_view bytes, std::uint8_t) {
  if (!files_.contains(rank)) MUSTER_RETURN_IF_ERROR(open_rank(rank));
  File& file = files_[rank][stream == proto::OutputStream::kStdout ? 0 : 1];
  if (!file.fd.valid()) return base::ok_status();  // an earlier write failed, and the sink has reported that
  const int problem = write_all(file.fd.get(), bytes);
  if (problem == 0) return base::ok_status();
  file.fd.reset();
  return file_error("write", file.path, problem);
}

base::Status FileSink::end_rank(int) {
  return base::ok_status();
}

base::Status FileSink::flush() {
  return base::ok_status();
}

base::Status TeeSink::write(int rank, proto::OutputStream stream, std::string_view bytes, std::uint8_t flags) {
  base::Status first = first_->write(rank, stream, bytes, flags);
  return first_of(std::move(first), second_->write(rank, stream, bytes, flags));
}

base::Status TeeSink::end_rank(int rank) {
  base::Status first = first_->end_rank(rank);
  return first_of(std::move(first), second_->end_rank(rank));
}

base::Status TeeSink::flush() {
  base::Status first = first_->flush();
  return first_of(std::move(first), second_->flush());
}

base::Status TeeSink::finish() {
  base::Status first = first_->finish();
  return first_of(std::move(first), second_->finish());
}

void TeeSink::begin_attempt(int attempt) {
  first_->begin_attempt(attempt);
  second_->begin_attempt(attempt);
}

void TeeSink::frame(int agent, std::uint64_t sequence) {
  first_->frame(agent, sequence);
  second_->frame(agent, sequence);
}

base::Status TeeSink::end_agent(int agent) {
  base::Status first = first_->end_agent(agent);
  return first_of(std::move(first), second_->end_agent(agent));
}

base::Status SelectSink::write(int rank, proto::OutputStream stream, std::string_view bytes, std::uint8_t flags) {
  const auto index = static_cast<std::size_t>(rank);
  const Streams streams = index < by_rank_.size() ? by_rank_[index] : Streams();
  const bool passes = stream == proto::OutputStream::kStdout ? streams.out : streams.err;
  return passes ? ForwardingSink::write(rank, stream, bytes, flags) : base::ok_status();
}

}  // namespace muster::launcherd::output
