// Reads the answer to one HTTP request over a stream. Understands a length, chunks, and an answer that ends with the
// connection.
//
// Thread: single-threaded.
// Errors: those of LimitedStream. INVALID_ARGUMENT: it is no answer of HTTP/1.
#pragma once

#include <string>

#include "agent/evidence/limited_stream.h"
#include "base/status.h"

namespace muster::agent::inline evidence {

struct HttpReply {
  int status = 0;
  std::string body;
};

base::Result<HttpReply> read_http_reply(LimitedStream& stream);

}  // namespace muster::agent::evidence
