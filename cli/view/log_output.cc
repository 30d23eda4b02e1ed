#include "cli/view/log_output.h"

#include <fmt/format.h>

#include "base/strings.h"

namespace muster::cli::inline view {

base::WallTime wall_time_of(const google::protobuf::Timestamp& stamp) {
  return base::WallTime(std::chrono::duration_cast<base::WallTime::duration>(std::chrono::seconds(stamp.seconds()) +
                                                                             std::chrono::nanoseconds(stamp.nanos())));
}

base::Status LogOutput::show(const v1::LogChunk& chunk) {
  if (clock_ != nullptr) clock_->set(wall_time_of(chunk.time()));
  if (!chunk.lost_host().empty()) {
    gone_[base::printable(chunk.lost_host())] += chunk.lost_bytes();
    on_notice_(
        fmt::format("{} bytes of the output of {} are missing here: launcherd's disk confirmed the write and lost it",
                    chunk.lost_bytes(), base::printable(chunk.lost_host())));
    return base::ok_status();
  }
  if (chunk.lost_bytes() > 0) {
    on_notice_(fmt::format("{} bytes of output are missing here: launcherd's disk was full", chunk.lost_bytes()));
    return base::ok_status();
  }
  if (chunk.rank_ended()) {
    MUSTER_RETURN_IF_ERROR(sink_->end_rank(chunk.rank()));
    return sink_->flush();
  }
  const proto::OutputStream stream =
      chunk.stream() == v1::OUTPUT_STREAM_KIND_STDERR ? proto::OutputStream::kStderr : proto::OutputStream::kStdout;
  const auto flags = static_cast<std::uint8_t>((chunk.partial() ? proto::kPartial : 0) |
                                               (chunk.continuation() ? proto::kContinuation : 0));
  MUSTER_RETURN_IF_ERROR(sink_->write(chunk.rank(), stream, chunk.data(), flags));
  return sink_->flush();
}

std::string LogOutput::what_is_gone() const {
  std::string text;
  for (const auto& [host, bytes] : gone_) {
    text += fmt::format("{}{} bytes of the output of {}", text.empty() ? "" : ", ", bytes, host);
  }
  return text.empty() ? text : text + " are lost: launcherd's disk confirmed the write and lost it";
}

}  // namespace muster::cli::view
