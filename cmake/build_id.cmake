# Writes OUTPUT (a .cc) with a hash over the sources under ROOT and over FLAVOUR (compiler and options); leaves the file
# alone when nothing changed. Run at every build: a launcher and the agents that it has cached on hosts must agree.
file(GLOB_RECURSE sources ${ROOT}/base/* ${ROOT}/model/* ${ROOT}/proto/* ${ROOT}/rendezvous/* ${ROOT}/agent/*
     ${ROOT}/packaging/portable/*)
list(SORT sources)
set(all "${FLAVOUR}")
foreach(source ${sources})
  file(SHA256 ${source} hash)
  string(APPEND all "${hash}")
endforeach()
string(SHA256 hash "${all}")
string(SUBSTRING ${hash} 0 16 id)
file(CONFIGURE OUTPUT ${OUTPUT} CONTENT "#include \"base/build_id.h\"

namespace muster::base {

std::string_view build_id() { return \"${id}\"; }

}  // namespace muster::base
")
