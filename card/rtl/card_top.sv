// The card: X0 with the host's bus and registers, the packet switch, X1, X2, the MAC. What is
// outside (pads, PCI, the PHY, the loading of bitstreams) is not modelled: a bus master port stands
// for PCI, a GMII for the wire. The GMII has a clock of its own, `mac_clk`; all else is of `clk`.
// verilator lint_off PINCONNECTEMPTY
// verilator lint_off UNUSEDSIGNAL
module card_top #(
    parameter int X1_FUNCTIONS = 6, // bit = function of the slot
    parameter int X2_FUNCTIONS = 6,
    parameter int LOAD_CYCLES = 64
) (
    input  logic        clk,
    input  logic        rst,
    input  logic        reg_valid,
    input  logic        reg_write,
    input  logic [7:0]  reg_addr,
    input  logic [31:0] reg_wdata,
    output logic [31:0] reg_rdata,
    output logic        irq,
    output logic        bus_cmd_valid,
    input  logic        bus_cmd_ready,
    output logic        bus_cmd_write,
    output logic [31:0] bus_cmd_addr,
    output logic [5:0]  bus_cmd_words,
    input  logic        bus_rd_valid,
    output logic        bus_rd_ready,
    input  logic [63:0] bus_rd_data,
    output logic        bus_wr_valid,
    input  logic        bus_wr_ready,
    output logic [63:0] bus_wr_data,
    output logic [7:0]  bus_wr_strb,
    input  logic        mac_clk, // 125 MHz for a gigabit
    output logic [7:0]  gmii_txd,
    output logic        gmii_tx_en,
    output logic        gmii_tx_er,
    input  logic [7:0]  gmii_rxd,
    input  logic        gmii_rx_dv,
    input  logic        gmii_rx_er,
    output logic [3:0]  x1_active, // function in the slot
    output logic [3:0]  x2_active
);
  localparam int HOST = 0, X1 = 1, X2 = 2, MAC = 3;
  // Links to the switch (i_) and from it (o_), port by port.
  logic [3:0]   i_valid, i_ready, i_sof, i_eof, i_err, o_valid, o_ready, o_sof, o_eof, o_err;
  logic [255:0] i_data, o_data;
  logic [15:0]  i_bytes, o_bytes;
  logic [7:0]   i_dest, o_src;
  logic [3:0]   look;
  logic [31:0]  sent, received, broken, overruns;
  logic         x1_to_mac, x2_to_mac;
  logic [15:0]  line_mtu;
  logic [31:0]  fragments;
  // From X1 to the fragments.
  logic         f_valid, f_ready, f_eof, f_err, f_to_mac;
  logic [63:0]  f_data;
  logic [3:0]   f_bytes;

  switch u_switch (
      .clk, .rst, .s_valid(i_valid), .s_ready(i_ready), .s_data(i_data), .s_sof(i_sof), .s_eof(i_eof), .s_bytes(i_bytes),
      .s_err(i_err), .s_dest(i_dest), .m_valid(o_valid), .m_ready(o_ready), .m_data(o_data), .m_sof(o_sof), .m_eof(o_eof),
      .m_bytes(o_bytes), .m_err(o_err), .m_src(o_src));

  x0 #(.X1_FUNCTIONS(X1_FUNCTIONS), .X2_FUNCTIONS(X2_FUNCTIONS)) u_x0 (
      .clk, .rst, .reg_valid, .reg_write, .reg_addr, .reg_wdata, .reg_rdata, .irq, .bus_cmd_valid, .bus_cmd_ready, .bus_cmd_write,
      .bus_cmd_addr, .bus_cmd_words, .bus_rd_valid, .bus_rd_ready, .bus_rd_data, .bus_wr_valid, .bus_wr_ready, .bus_wr_data,
      .bus_wr_strb, .m_valid(i_valid[HOST]), .m_ready(i_ready[HOST]), .m_data(i_data[64*HOST +: 64]), .m_sof(i_sof[HOST]),
      .m_eof(i_eof[HOST]), .m_bytes(i_bytes[4*HOST +: 4]), .m_err(i_err[HOST]), .m_dest(i_dest[2*HOST +: 2]),
      .s_valid(o_valid[HOST]), .s_ready(o_ready[HOST]), .s_data(o_data[64*HOST +: 64]), .s_sof(o_sof[HOST]), .s_eof(o_eof[HOST]),
      .s_bytes(o_bytes[4*HOST +: 4]), .s_err(o_err[HOST]), .receive_look(look), .line_mtu, .fragments, .mac_counters({overruns, broken, received, sent}));

  x1 #(.FUNCTIONS(X1_FUNCTIONS), .LOAD_CYCLES(LOAD_CYCLES)) u_x1 (
      .clk, .rst, .s_valid(o_valid[X1]), .s_ready(o_ready[X1]), .s_data(o_data[64*X1 +: 64]), .s_sof(o_sof[X1]), .s_eof(o_eof[X1]),
      .s_bytes(o_bytes[4*X1 +: 4]), .s_err(o_err[X1]), .m_valid(f_valid), .m_ready(f_ready), .m_data(f_data), .m_sof(), .m_eof(f_eof),
      .m_bytes(f_bytes), .m_err(f_err), .m_to_mac(f_to_mac), .slot_active(x1_active));
  fragment u_fragment (
      .clk, .rst, .mtu(line_mtu), .s_valid(f_valid), .s_ready(f_ready), .s_data(f_data), .s_eof(f_eof), .s_bytes(f_bytes), .s_err(f_err),
      .s_to_mac(f_to_mac), .m_valid(i_valid[X1]), .m_ready(i_ready[X1]), .m_data(i_data[64*X1 +: 64]), .m_sof(i_sof[X1]),
      .m_eof(i_eof[X1]), .m_bytes(i_bytes[4*X1 +: 4]), .m_err(i_err[X1]), .m_to_mac(x1_to_mac), .fragments);
  x2 #(.FUNCTIONS(X2_FUNCTIONS), .LOAD_CYCLES(LOAD_CYCLES)) u_x2 (
      .clk, .rst, .s_valid(o_valid[X2]), .s_ready(o_ready[X2]), .s_data(o_data[64*X2 +: 64]), .s_sof(o_sof[X2]), .s_eof(o_eof[X2]),
      .s_bytes(o_bytes[4*X2 +: 4]), .s_err(o_err[X2]), .s_from_mac(o_src[2*X2 +: 2] == 2'(MAC)), .look, .m_valid(i_valid[X2]),
      .m_ready(i_ready[X2]), .m_data(i_data[64*X2 +: 64]), .m_sof(i_sof[X2]), .m_eof(i_eof[X2]), .m_bytes(i_bytes[4*X2 +: 4]),
      .m_err(i_err[X2]), .m_to_mac(x2_to_mac), .slot_active(x2_active));
  assign i_dest[2*X1 +: 2] = x1_to_mac ? 2'(MAC) : 2'(HOST);
  assign i_dest[2*X2 +: 2] = x2_to_mac ? 2'(MAC) : 2'(HOST);

  mac u_mac (
      .clk, .rst, .mac_clk, .s_valid(o_valid[MAC]), .s_ready(o_ready[MAC]), .s_data(o_data[64*MAC +: 64]), .s_sof(o_sof[MAC]),
      .s_eof(o_eof[MAC]), .s_bytes(o_bytes[4*MAC +: 4]), .s_err(o_err[MAC]), .gmii_txd, .gmii_tx_en, .gmii_tx_er, .gmii_rxd,
      .gmii_rx_dv, .gmii_rx_er, .m_valid(i_valid[MAC]), .m_ready(i_ready[MAC]), .m_data(i_data[64*MAC +: 64]), .m_sof(i_sof[MAC]),
      .m_eof(i_eof[MAC]), .m_bytes(i_bytes[4*MAC +: 4]), .m_err(i_err[MAC]), .sent, .dropped(), .received, .broken, .overruns);
  assign i_dest[2*MAC +: 2] = 2'(X2);
endmodule
