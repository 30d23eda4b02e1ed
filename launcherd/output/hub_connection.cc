#include "launcherd/output/hub_connection.h"

#include <algorithm>
#include <cstring>

#include "base/free_if_empty.h"

namespace muster::launcherd::inline output {

using base::TlsProgress;

base::Status HubConnection::serve(ReadScratch* scratch,
                                  const std::function<base::Status(const proto::OutputFrame&)>& on_frame) {
  has_more_ = false;
  if (!is_established_) {
    MUSTER_ASSIGN_OR_RETURN(const TlsProgress progress, stream_.handshake_step());
    wants_write_ = progress == TlsProgress::kWantWrite;
    if (progress != TlsProgress::kDone) return base::ok_status();
    is_established_ = true;
  }
  MUSTER_RETURN_IF_ERROR(write_pending());

  std::memcpy(scratch->bytes.get(), partial_.data(), partial_.size());
  std::size_t size = partial_.size();
  const std::size_t enough = size + ReadScratch::kRound;
  bool is_closed = false;
  while (size < enough) {
    MUSTER_ASSIGN_OR_RETURN(const base::TlsTransfer moved, stream_.read(scratch->bytes.get() + size, enough - size));
    is_closed = moved.progress == TlsProgress::kEof;
    if (moved.bytes == 0) break;
    size += moved.bytes;
  }
  has_more_ = size == enough;

  std::string_view rest(scratch->bytes.get(), size);
  for (;;) {
    MUSTER_ASSIGN_OR_RETURN(const proto::OutputParse parse, proto::parse_output_frame(rest));
    if (parse.state == proto::OutputParse::State::kNeedMore) break;
    MUSTER_RETURN_IF_ERROR(on_frame(parse.frame));
    rest.remove_prefix(parse.size);
  }
  partial_.assign(rest);
  base::free_if_empty(partial_, 4096);  // an idle connection uses no memory
  if (is_closed) return {base::Code::kUnavailable, "the agent closed the connection"};
  return base::ok_status();
}

base::Status HubConnection::send(proto::OutputKind kind, std::uint64_t sequence) {
  outgoing_.append(proto::encode_output_frame({.kind = kind, .sequence = sequence}, {}));
  acknowledged = sequence;
  return write_pending();
}

base::Status HubConnection::write_pending() {
  wants_write_ = false;
  while (!outgoing_.empty()) {
    MUSTER_ASSIGN_OR_RETURN(const base::TlsTransfer moved, stream_.write(outgoing_.data(), outgoing_.size()));
    wants_write_ = moved.progress == TlsProgress::kWantWrite;
    if (moved.bytes == 0) break;
    outgoing_.erase(0, moved.bytes);
  }
  return base::ok_status();
}

}  // namespace muster::launcherd::output
