// X0, the host's side: registers, and the DMA engine with its three rings. Frames go to and come
// from the packet switch. Registers and the forms of descriptors and completions:
// docs/lab/card.md.
// verilator lint_off PINCONNECTEMPTY
// verilator lint_off UNUSEDSIGNAL
module x0 #(
    parameter int TX_DEPTH_LOG2 = 7,
    parameter int RX_DEPTH_LOG2 = 8,
    parameter int X1_FUNCTIONS = 2,
    parameter int X2_FUNCTIONS = 2
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
    output logic        m_valid, // from the host
    input  logic        m_ready,
    output logic [63:0] m_data,
    output logic        m_sof,
    output logic        m_eof,
    output logic [3:0]  m_bytes,
    output logic        m_err,
    output logic [1:0]  m_dest,
    input  logic        s_valid, // to the host
    output logic        s_ready,
    input  logic [63:0] s_data,
    input  logic        s_sof,
    input  logic        s_eof,
    input  logic [3:0]  s_bytes,
    input  logic        s_err,
    output logic [3:0]  receive_look, // what X2 does with frames from the MAC besides
    output logic [15:0] line_mtu,     // longer packets leave in fragments; 0: as they are
    input  logic [31:0] fragments,    // sent
    input  logic [127:0] mac_counters // sent, received, broken, overruns; the first lowest
);
  logic        tx_on, rx_on;
  logic [31:0] tx_base, rx_base, cpl_base, irq_time, cycles, tx_frames, rx_frames, bus_words, bus_waits;
  logic [15:0] tx_mask, rx_mask, cpl_mask, tx_tail, rx_tail, cpl_head, tx_head, rx_head, cpl_tail, irq_count, errors;

  // ---- registers
  logic ack;
  assign ack = reg_valid && reg_write && reg_addr == 8'h48;
  always_ff @(posedge clk) begin
    cycles <= cycles + 1'b1;
    if (rst) begin
      {rx_on, tx_on} <= '0;
      receive_look <= '0;
      line_mtu <= '0;
      {tx_base, rx_base, cpl_base, irq_time, cycles} <= '0;
      {tx_mask, rx_mask, cpl_mask, tx_tail, rx_tail, cpl_head, irq_count} <= '0;
    end else if (reg_valid && reg_write) begin
      case (reg_addr)
        8'h04: {receive_look, rx_on, tx_on} <= {reg_wdata[7:4], reg_wdata[1:0]};
        8'h10: tx_base <= reg_wdata;
        8'h14: tx_mask <= reg_wdata[15:0];
        8'h18: tx_tail <= reg_wdata[15:0];
        8'h20: rx_base <= reg_wdata;
        8'h24: rx_mask <= reg_wdata[15:0];
        8'h28: rx_tail <= reg_wdata[15:0];
        8'h30: cpl_base <= reg_wdata;
        8'h34: cpl_mask <= reg_wdata[15:0];
        8'h38: cpl_head <= reg_wdata[15:0];
        8'h40: irq_count <= reg_wdata[15:0];
        8'h44: irq_time <= reg_wdata;
        8'h4c: line_mtu <= reg_wdata[15:0];
        default: ;
      endcase
    end
    if (reg_valid) begin
      case (reg_addr)
        8'h00: reg_rdata <= 32'h4752_4950;
        8'h04: reg_rdata <= {24'b0, receive_look, 2'b0, rx_on, tx_on};
        8'h08: reg_rdata <= {16'(X2_FUNCTIONS), 16'(X1_FUNCTIONS)};
        8'h10: reg_rdata <= tx_base;
        8'h14: reg_rdata <= {16'b0, tx_mask};
        8'h18: reg_rdata <= {16'b0, tx_tail};
        8'h1c: reg_rdata <= {16'b0, tx_head};
        8'h20: reg_rdata <= rx_base;
        8'h24: reg_rdata <= {16'b0, rx_mask};
        8'h28: reg_rdata <= {16'b0, rx_tail};
        8'h2c: reg_rdata <= {16'b0, rx_head};
        8'h30: reg_rdata <= cpl_base;
        8'h34: reg_rdata <= {16'b0, cpl_mask};
        8'h38: reg_rdata <= {16'b0, cpl_head};
        8'h3c: reg_rdata <= {16'b0, cpl_tail};
        8'h40: reg_rdata <= {16'b0, irq_count};
        8'h44: reg_rdata <= irq_time;
        8'h48: reg_rdata <= {31'b0, irq};
        8'h4c: reg_rdata <= {16'b0, line_mtu};
        8'h50: reg_rdata <= tx_frames;
        8'h54: reg_rdata <= rx_frames;
        8'h58: reg_rdata <= {16'b0, errors};
        8'h5c: reg_rdata <= bus_words;
        8'h60: reg_rdata <= bus_waits;
        8'h64: reg_rdata <= cycles;
        8'h68: reg_rdata <= fragments;
        8'h70: reg_rdata <= mac_counters[31:0];
        8'h74: reg_rdata <= mac_counters[63:32];
        8'h78: reg_rdata <= mac_counters[95:64];
        8'h7c: reg_rdata <= mac_counters[127:96];
        default: reg_rdata <= '0;
      endcase
    end
  end

  // ---- engines
  logic [2:0]  req_valid, req_ready, req_write, rd_valid, rd_ready, wr_valid, wr_ready;
  logic [31:0] tx_addr, rx_addr, cpl_addr, tx_cookie, rx_cookie;
  logic [5:0]  tx_words, rx_words;
  logic [63:0] rd_data, rx_data, cpl_data, rx_status;
  logic [7:0]  rx_strb;
  logic        tx_pressed, rx_pressed, tx_done, tx_done_ready, tx_bad, rx_done, rx_done_ready, rx_bad;
  logic [15:0] rx_bytes;
  assign req_write[0] = 1'b0;
  assign req_write[2] = 1'b1;
  assign rd_ready[2] = 1'b0;
  assign wr_valid[0] = 1'b0;
  dma_bus u_bus (
      .clk, .rst, .req_valid, .req_ready, .req_write, .req_addr({cpl_addr, rx_addr, tx_addr}), .req_words({6'd2, rx_words, tx_words}),
      .transmit_pressed(tx_pressed), .receive_pressed(rx_pressed), .rd_valid, .rd_ready, .rd_data, .wr_valid, .wr_ready,
      .wr_data({cpl_data, rx_data, 64'b0}), .wr_strb({8'hff, rx_strb, 8'h00}), .bus_cmd_valid, .bus_cmd_ready, .bus_cmd_write,
      .bus_cmd_addr, .bus_cmd_words, .bus_rd_valid, .bus_rd_ready, .bus_rd_data, .bus_wr_valid, .bus_wr_ready, .bus_wr_data,
      .bus_wr_strb, .words(bus_words), .waits(bus_waits));
  dma_transmit #(.DEPTH_LOG2(TX_DEPTH_LOG2)) u_transmit (
      .clk, .rst, .on(tx_on), .base(tx_base), .mask(tx_mask), .tail(tx_tail), .head(tx_head), .req_valid(req_valid[0]),
      .req_ready(req_ready[0]), .req_addr(tx_addr), .req_words(tx_words), .rd_valid(rd_valid[0]), .rd_ready(rd_ready[0]), .rd_data,
      .m_valid, .m_ready, .m_data, .m_sof, .m_eof, .m_bytes, .m_err, .m_dest, .pressed(tx_pressed), .done_valid(tx_done),
      .done_ready(tx_done_ready), .done_cookie(tx_cookie), .done_bad(tx_bad), .frames(tx_frames));
  logic g_valid, g_ready, g_eof, g_err;
  logic [63:0] g_data;
  logic [3:0] g_bytes;
  frame_guard u_guard (
      .clk, .rst, .s_valid, .s_ready, .s_data, .s_sof, .s_eof, .s_bytes, .s_err, .m_valid(g_valid), .m_ready(g_ready), .m_data(g_data),
      .m_sof(), .m_eof(g_eof), .m_bytes(g_bytes), .m_err(g_err), .unframed_words(), .cuts());
  dma_receive #(.DEPTH_LOG2(RX_DEPTH_LOG2)) u_receive (
      .clk, .rst, .on(rx_on), .base(rx_base), .mask(rx_mask), .tail(rx_tail), .head(rx_head), .req_valid(req_valid[1]),
      .req_ready(req_ready[1]), .req_write(req_write[1]), .req_addr(rx_addr), .req_words(rx_words), .rd_valid(rd_valid[1]),
      .rd_ready(rd_ready[1]), .rd_data, .wr_valid(wr_valid[1]), .wr_ready(wr_ready[1]), .wr_data(rx_data), .wr_strb(rx_strb),
      .s_valid(g_valid), .s_ready(g_ready), .s_data(g_data), .s_eof(g_eof), .s_bytes(g_bytes), .s_err(g_err), .pressed(rx_pressed),
      .done_valid(rx_done), .done_ready(rx_done_ready), .done_cookie(rx_cookie), .done_bytes(rx_bytes), .done_bad(rx_bad),
      .done_status(rx_status), .frames(rx_frames));
  dma_complete u_complete (
      .clk, .rst, .base(cpl_base), .mask(cpl_mask), .head(cpl_head), .tail(cpl_tail), .tx_valid(tx_done), .tx_ready(tx_done_ready),
      .tx_cookie, .tx_bad, .rx_valid(rx_done), .rx_ready(rx_done_ready), .rx_cookie, .rx_bytes, .rx_bad, .rx_status,
      .req_valid(req_valid[2]), .req_ready(req_ready[2]), .req_addr(cpl_addr), .wr_valid(wr_valid[2]), .wr_ready(wr_ready[2]),
      .wr_data(cpl_data), .irq_count, .irq_time, .irq_ack(ack), .irq);

  always_ff @(posedge clk) begin
    if (rst) errors <= '0;
    else errors <= errors + {15'b0, tx_done && tx_done_ready && tx_bad} + {15'b0, rx_done && rx_done_ready && rx_bad};
  end
endmodule
