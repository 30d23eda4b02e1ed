#include "launcherd/output/progress_sink.h"

namespace muster::launcherd::inline output {

base::Status ProgressSink::write(int rank, proto::OutputStream stream, std::string_view bytes, std::uint8_t flags) {
  if (!has_progress_ && bytes.find(text_) != std::string_view::npos) has_progress_ = true;
  return ForwardingSink::write(rank, stream, bytes, flags);
}

}  // namespace muster::launcherd::output
