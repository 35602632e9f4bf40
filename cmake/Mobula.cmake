# The build's few verbs. A layer folder's CMakeLists.txt is one or two of these lines; sources are found by globbing,
# so adding a file to a folder needs no change here or there.
include_guard()
find_package(PkgConfig REQUIRED)
find_package(Threads REQUIRED)
find_package(Python3 3.9 REQUIRED COMPONENTS Interpreter)

pkg_check_modules(uv REQUIRED IMPORTED_TARGET libuv)
pkg_check_modules(hiredis REQUIRED IMPORTED_TARGET hiredis)
pkg_check_modules(microhttpd REQUIRED IMPORTED_TARGET libmicrohttpd)
pkg_check_modules(jansson REQUIRED IMPORTED_TARGET jansson)
pkg_check_modules(sodium REQUIRED IMPORTED_TARGET libsodium)
pkg_check_modules(xxhash REQUIRED IMPORTED_TARGET libxxhash)
pkg_check_modules(lz4 REQUIRED IMPORTED_TARGET liblz4)
pkg_check_modules(zlib REQUIRED IMPORTED_TARGET zlib)
pkg_check_modules(pq REQUIRED IMPORTED_TARGET libpq)
set(MOB_EXTERNAL uv hiredis microhttpd jansson sodium xxhash lz4 zlib pq)

# A folder without sources still has its library, so that it can be named as a dependency before its first file is there.
set(MOB_EMPTY_SOURCE ${CMAKE_BINARY_DIR}/empty.c)
file(CONFIGURE OUTPUT ${MOB_EMPTY_SOURCE} CONTENT "extern int mob_empty_translation_unit;\n")

function(mob_resolve_deps OUT)
  set(result)
  foreach(dep IN LISTS ARGN)
    if(dep IN_LIST MOB_EXTERNAL)
      list(APPEND result PkgConfig::${dep})
    else()
      list(APPEND result ${dep})
    endif()
  endforeach()
  set(${OUT} ${result} PARENT_SCOPE)
endfunction()

# mob_library(NAME [DEPS lib...]): a static library of every *.c in this folder, except *_main.c.
# DEPS are names of other layers (mob_common_base) or of MOB_EXTERNAL (uv).
function(mob_library NAME)
  cmake_parse_arguments(ARG "" "" "DEPS" ${ARGN})
  file(GLOB sources CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/*.c)
  list(FILTER sources EXCLUDE REGEX "_main\\.c$")
  if(NOT sources)
    set(sources ${MOB_EMPTY_SOURCE})
  endif()
  add_library(${NAME} STATIC ${sources})
  mob_resolve_deps(deps ${ARG_DEPS})
  target_link_libraries(${NAME} PUBLIC ${deps} Threads::Threads m)
  set_property(GLOBAL APPEND PROPERTY MOB_LAYERS ${NAME})
endfunction()

# mob_executable(NAME [MAIN file] [EXPORTS] [DEPS lib...]): NAME in <build>/bin. Without MAIN, the folder's only *_main.c; while
# there is none, nothing. EXPORTS: the modules that it loads find the whole public C API in it.
function(mob_executable NAME)
  cmake_parse_arguments(ARG "EXPORTS" "MAIN" "DEPS" ${ARGN})
  if(ARG_MAIN)
    file(GLOB main CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/${ARG_MAIN})
  else()
    file(GLOB main CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/*_main.c)
  endif()
  list(LENGTH main count)
  if(count EQUAL 0)
    return()
  elseif(count GREATER 1)
    message(FATAL_ERROR "${NAME}: several *_main.c in ${CMAKE_CURRENT_SOURCE_DIR}; name one with MAIN")
  endif()
  add_executable(${NAME} ${main})
  mob_resolve_deps(deps ${ARG_DEPS})
  target_link_libraries(${NAME} PRIVATE ${deps} Threads::Threads m)
  if(ARG_EXPORTS)
    set_target_properties(${NAME} PROPERTIES ENABLE_EXPORTS ON)
    target_link_libraries(${NAME} PRIVATE mob_sdk_c ${CMAKE_DL_LIBS})
    # The modules are not there when this is linked, so the linker must not drop what only they call.
    target_link_options(${NAME} PRIVATE LINKER:--whole-archive $<TARGET_FILE:mob_sdk_c> LINKER:--no-whole-archive)
    add_dependencies(${NAME} mob_sdk_c)
  endif()
  set_property(GLOBAL APPEND PROPERTY MOB_EXECUTABLES ${NAME})
  install(TARGETS ${NAME} RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR} COMPONENT runtime)
endfunction()

# mob_module(NAME SOURCES file...): <build>/modules/NAME.so, a function module. It links nothing but libm: the worker that
# loads it offers the API.
function(mob_module NAME)
  cmake_parse_arguments(ARG "" "" "SOURCES" ${ARGN})
  set(target module_${NAME})
  add_library(${target} MODULE ${ARG_SOURCES})
  set_target_properties(${target} PROPERTIES PREFIX "" OUTPUT_NAME ${NAME}
    LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/modules)
  target_link_libraries(${target} PRIVATE m)
  set_property(GLOBAL APPEND PROPERTY MOB_MODULES ${target})
endfunction()

# Every *.c of FOLDER is a module of its own.
function(mob_modules_in FOLDER)
  file(GLOB sources CONFIGURE_DEPENDS ${FOLDER}/*.c)
  foreach(source IN LISTS sources)
    get_filename_component(name ${source} NAME_WE)
    mob_module(${name} SOURCES ${source})
  endforeach()
endfunction()

# mob_link_layers(TARGET): links every layer; for tests and benches, which may look inside of anything.
function(mob_link_layers TARGET)
  get_property(layers GLOBAL PROPERTY MOB_LAYERS)
  list(JOIN layers "," group)
  target_link_libraries(${TARGET} PRIVATE "$<LINK_GROUP:RESCAN,${group}>" ${CMAKE_DL_LIBS})
  set_target_properties(${TARGET} PROPERTIES ENABLE_EXPORTS ON)
endfunction()
