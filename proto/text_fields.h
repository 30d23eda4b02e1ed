// `string` fields hold UTF-8. protobuf writes others all the same and fails to read them: the reader loses the whole
// message, and on a stream everything after it. So all that goes out is looked through where it goes out, not where it
// is made: control streams (ControlClient, ControlServer), frames, the API's questions and answers, JSON. What must
// arrive byte for byte is `bytes` in its contract, and is not touched here.
#pragma once

#include <memory>

#include "base/status.h"

namespace google::protobuf {
class Message;
}

namespace muster::proto {

// INVALID_ARGUMENT names the first `string` field, also of messages within, that holds something else.
base::Status check_text(const google::protobuf::Message& message);

// Each byte that is no part of a character becomes U+FFFD.
void mend_text(google::protobuf::Message& message);

// Null: there is nothing to mend.
std::unique_ptr<google::protobuf::Message> mended_copy(const google::protobuf::Message& message);

}  // namespace muster::proto
