# Writes INPUT, a set of compiled contracts, as the source file OUTPUT: cmake -DINPUT=F -DOUTPUT=F -P this
file(READ ${INPUT} digits HEX)
string(REGEX REPLACE "(..)" "0x\\1," bytes "${digits}")
file(WRITE ${OUTPUT} "// Written by CMake from launcher.proto and its imports.
#include \"proto/contract_descriptors.h\"

namespace muster::proto {

std::string_view contract_descriptors() {
  static constexpr unsigned char kBytes[] = {${bytes}};
  return {reinterpret_cast<const char*>(kBytes), sizeof kBytes};
}

}  // namespace muster::proto
")
