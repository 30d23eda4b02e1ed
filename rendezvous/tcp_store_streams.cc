#include "rendezvous/tcp_store_streams.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/clock.h"
#include "base/strings.h"

namespace muster::rendezvous {

ByteStreams::Id TcpStoreStreams::open(std::string_view client, Events events) {
  const Id id = next_++;
  Stream& stream = streams_[id];
  stream.client = client;
  stream.events = std::move(events);
  stream.session = std::make_unique<TcpStoreSession>(&hub_, stream.client, [this, id] { pump_soon(id); });
  return id;
}

void TcpStoreStreams::send(Id id, std::string_view bytes) {
  const auto found = streams_.find(id);
  if (found == streams_.end()) return;
  found->second.held.append(bytes);
  pump(id);
}

void TcpStoreStreams::credit(Id id, std::size_t size) {
  const auto found = streams_.find(id);
  if (found == streams_.end()) return;
  found->second.window = std::min(found->second.window + size, kStreamWindow);
  pump(id);
}

void TcpStoreStreams::close(Id id) {
  const auto found = streams_.find(id);
  if (found == streams_.end()) return;
  found->second.is_closed = true;
  pump(id);
  streams_.erase(id);
}

void TcpStoreStreams::ask_wait(Id id, Answer done) {
  const auto found = streams_.find(id);
  const auto wait = found == streams_.end() ? std::nullopt : found->second.session->oldest_wait();
  if (!wait) return done(std::nullopt);
  const auto age = std::chrono::duration_cast<std::chrono::milliseconds>(base::monotonic_now() - wait->since);
  done(StreamWait{.what = describe(*wait), .age = age});
}

// Sessions call it from within other sessions' requests, so the work is done later.
void TcpStoreStreams::pump_soon(Id id) {
  const auto found = streams_.find(id);
  if (found == streams_.end() || std::exchange(found->second.is_pump_due, true)) return;
  loop_.post(gate_.wrap([this, id] { pump(id); }));
}

// Serves and replies until neither can go on.
void TcpStoreStreams::pump(Id id) {
  for (;;) {
    const auto found = streams_.find(id);
    if (found == streams_.end()) return;
    Stream& stream = found->second;
    stream.is_pump_due = false;
    const std::size_t before = stream.held.size() + stream.session->output().size();
    base::Status status = stream.session->failure();
    if (status.ok()) status = serve(stream);
    if (status.ok()) status = reply(stream);
    if (!status.ok()) return fail(found, status);
    if (before == stream.held.size() + stream.session->output().size()) return;
  }
}

base::Status TcpStoreStreams::serve(Stream& stream) {
  if (stream.held.empty() || !stream.session->wants_input()) return base::ok_status();
  const std::string bytes = std::exchange(stream.held, {});
  MUSTER_RETURN_IF_ERROR(stream.session->receive(bytes));
  if (!stream.is_closed) stream.events.on_credit(bytes.size());
  return base::ok_status();
}

base::Status TcpStoreStreams::reply(Stream& stream) {
  TcpStoreSession& session = *stream.session;
  while (!session.output().empty() && (stream.window > 0 || stream.is_closed)) {
    const std::size_t room = stream.is_closed ? session.output().size() : std::min(stream.window, kStreamPiece);
    const std::string_view piece = session.output().substr(0, room);
    const std::size_t size = piece.size();
    if (!stream.is_closed) {
      stream.events.on_bytes(piece);
      stream.window -= size;
    }
    MUSTER_RETURN_IF_ERROR(session.consume_output(size));
  }
  return base::ok_status();
}

void TcpStoreStreams::fail(Streams::iterator stream, const base::Status& why) {
  const Stream failed = std::move(stream->second);
  streams_.erase(stream);
  if (on_problem_) {
    on_problem_(why.with_context(fmt::format("TCPStore: client of {} closed", base::printable(failed.client))));
  }
  if (failed.is_closed) return;
  // Send replies to valid requests before the end.
  const std::string_view output = failed.session->output();
  if (!output.empty() && output.size() <= std::min(failed.window, kStreamPiece)) failed.events.on_bytes(output);
  failed.events.on_closed();
}

}  // namespace muster::rendezvous
